"""Command-line flags of SGLang 0.5.23, by kind (see ``stoker.lab.standins.flags``)."""

from __future__ import annotations

FLAGS: dict[str, str] = {
    "flag": """
    --abort-on-priority-when-disabled --allow-auto-truncate --checkpoint-engine-wait-weights-before-ready
    --constrained-json-disable-any-whitespace --debug-cuda-graph --delete-ckpt-after-loading
    --disable-aiter-allreduce-fusion-in-decode --disable-aiter-allreduce-fusion-in-prefill
    --disable-attn-tp-gather --disable-chunked-prefix-cache --disable-cuda-graph
    --disable-cuda-graph-padding --disable-custom-all-reduce --disable-decode-cuda-graph
    --disable-fast-image-processor --disable-flashinfer-autotune
    --disable-flashinfer-cutlass-moe-fp4-allgather --disable-hybrid-swa-memory --disable-outlines-disk-cache
    --disable-overlap-schedule --disable-prefill-cuda-graph --disable-priority-preemption
    --disable-radix-cache --disable-shared-experts-fusion --disable-tokenizer-batch-decode
    --disaggregation-decode-enable-offload-kvcache --disaggregation-decode-enable-radix-cache
    --disaggregation-enable-kv-checksum --enable-adaptive-dispatch-to-encoder
    --enable-aiter-allreduce-fusion --enable-amd-monokernel --enable-attn-tp-input-scattered
    --enable-broadcast-mm-inputs-process --enable-cache-report --enable-cp-decode-attn-tp
    --enable-cudagraph-gc --enable-custom-logit-processor --enable-deepseek-v4-fp4-indexer
    --enable-dense-mlp-attn-tp --enable-deterministic-inference --enable-dp-attention
    --enable-dp-attention-local-control-broadcast --enable-dp-lm-head --enable-draft-weights-cpu-backup
    --enable-dsa-cache-layer-split --enable-dynamic-batch-tokenizer --enable-dynamic-chunking
    --enable-elastic-expert-backup --enable-encoder-swa-bounded-replay --enable-eplb
    --enable-flashinfer-allreduce-fusion --enable-flexkv --enable-forward-pass-metrics --enable-fp32-lm-head
    --enable-fused-moe-sum-all-reduce --enable-hierarchical-cache|--enable-hicache --enable-hisparse
    --enable-http-worker-reuseport --enable-http2 --enable-int8-mamba-checkpoint --enable-kv-cache-sharding
    --enable-layernorm-sp --enable-layerwise-nvtx-marker --enable-lean-attention --enable-linear-replayssm
    --enable-linear-replayssm-spec --enable-linker-mla-dedup --enable-lmcache --enable-lora
    --enable-lora-overlap-loading --enable-mamba-cache-stochastic-rounding --enable-megamoe-for-layernorm-sp
    --enable-memory-saver --enable-metrics --enable-metrics-for-all-schedulers --enable-mfu-metrics
    --enable-mis --enable-mixed-chunk --enable-mm-global-cache --enable-mscclpp --enable-multi-layer-eagle
    --enable-multimodal --enable-nccl-nvls --enable-nvidia-megakernel --enable-p2p-check
    --enable-page-major-kv-layout --enable-paged-experts --enable-pd-role-switch --enable-pdmux
    --enable-precise-embedding-interpolation --enable-prefill-cp --enable-prefill-delayer
    --enable-prefix-mm-cache --enable-priority-scheduling --enable-profile-cuda-graph
    --enable-quant-communications --enable-request-time-stats-logging --enable-response-store
    --enable-return-aux-hidden-states --enable-return-hidden-states --enable-return-indexer-topk
    --enable-return-routed-experts --enable-scattered-sconv --enable-session-radix-cache
    --enable-shared-experts-attn-tp --enable-single-batch-overlap --enable-ssl-refresh
    --enable-streaming-session --enable-strict-thinking --enable-symm-mem --enable-tokenizer-batch-encode
    --enable-torch-compile --enable-torch-compile-debug-mode --enable-torch-symm-mem --enable-trace
    --enable-two-batch-overlap --enable-unified-cache-external-linker --enable-unified-memory
    --enable-w4a4-mxfp4-megamoe --enable-waterfill --enable-watermark --enable-weights-cpu-backup
    --encoder-only --enforce-disable-flashinfer-allreduce-fusion --enforce-shared-experts-fusion
    --experts-shared-outer-loras --export-metrics-to-file --flashinfer-mla-disable-ragged --grpc-mode
    --incremental-streaming-output --is-embedding --language-model-only --language-only --log-requests
    --lora-strict-loading --lora-use-virtual-experts --mlx-enable-sampling --pre-warm-nccl
    --prefill-only-disable-kv-cache --quantize-and-serve
    --remote-instance-weight-loader-start-seed-via-transfer-engine --return-input-ids --return-output-ids
    --schedule-low-priority-values-first --show-time-cost --skip-server-warmup --skip-tokenizer-init
    --sleep-on-idle --smg-grpc-mode --speculative-adaptive
    --speculative-dspark-align-verify-tokens-to-graph-tier --speculative-use-block-verification
    --speculative-use-rejection-sampling --stream-response-default-include-usage --strip-thinking-cache
    --triton-attention-reduce-in-fp32 --trust-mm-content-hashes --trust-remote-code
    --trust-request-chat-template --use-ray --weight-loader-disable-mmap
    --weight-loader-drop-cache-after-load --weight-loader-prefetch-checkpoints
    """,
    "pair": """
    --dcp-replicate-q-proj --dllm-fdfo --enable-decoder-swa-bounded-replay --enable-dsa-fused-indexer
    --enable-fused-qk-norm-rope --enable-tf32-matmul --enable-tp-lm-head-all-to-all --mm-enable-dp-encoder
    --ple-offload-embedding --speculative-enable-w4a4-mxfp4-megamoe
    """,
    "int": """
    --asr-max-buffer-seconds=60 --asr-max-concurrent-sessions=32
    --attn-cp-size|--attention-context-parallel-size=1 --attn-dp-size|--attention-data-parallel-size=1
    --base-gpu-id=0 --batch-notify-size=16 --c128-page-size=16 --chunked-prefill-size
    --constrained-json-max-whitespace-cnt --cpu-offload-gb=0 --cuda-graph-max-bs-decode
    --cuda-graph-max-bs-prefill --cuda-graph-max-seq-len-prefill
    --cuda-graph-prefill-max-context|--context-bucket --dcp-size|--decode-context-parallel-size=1
    --decode-log-interval=40 --decoupled-spec-rank --default-priority-value --detokenizer-worker-num=1
    --disaggregation-bootstrap-port=8998 --disaggregation-decode-extra-slots
    --disaggregation-decode-polling-interval=1 --dist-timeout --dp-size|--data-parallel-size=1
    --dsa-triton-union=0 --dwdp-size=1 --dynamic-batch-tokenizer-batch-size=32 --elastic-ep-initial-size
    --elastic-ep-join-rank-offset=0 --encoder-bootstrap-port=8997 --engine-info-bootstrap-port=6789
    --ep-num-redundant-experts=0 --ep-size|--expert-parallel-size|--ep=1 --eplb-rebalance-layers-per-chunk
    --eplb-rebalance-num-iterations=1000 --expert-distribution-recorder-buffer-size --fuseep-mode=2
    --gated-launch-port --gpu-id-step=1 --grpc-port --grpc-response-timeout-secs=300 --hicache-size=0
    --hicache-storage-prefetch-retry-max-attempts=8 --hicache-storage-prefetch-retry-poll-interval=8
    --http2-initial-connection-window-size=1048576 --http2-max-concurrent-streams=200 --int8-mamba-ckpt-size
    --kt-cpuinfer --kt-max-deferred-experts-per-token --kt-num-gpu-experts --kt-threadpool-count=2
    --kv-canary-sweep-interval=0 --linear-replayssm-cache-len=16 --load-snapshot-publish-interval=15
    --log-requests-level=2 --mamba-cache-philox-rounds=0 --mamba-max-states-per-path=-1
    --mamba-track-interval=256 --max-ep-size --max-loaded-loras --max-lora-chunk-size=16 --max-lora-rank
    --max-loras-per-batch=8 --max-mamba-cache-size --max-queued-requests --max-running-requests
    --media-url-max-file-size-mb=64 --min-free-slots-delay --mm-io-worker-num=0
    --mm-preprocess-cache-size-mb --mm-processor-worker-num=0 --moe-dense-tp-size
    --moe-dp-size|--moe-data-parallel-size=1 --nccl-port --nnodes=1 --node-rank=0
    --num-continuous-decode-steps=1 --num-reserved-decode-tokens=512 --offload-group-size=-1
    --offload-num-in-group=1 --offload-prefetch-step=1 --optimistic-prefill-attempts=0 --page-size
    --paged-experts-num-resident --port=30000 --pp-async-batch-depth=0 --pp-max-micro-batch-size
    --pp-size|--pipeline-parallel-size=1 --prefill-decode-interval --prefill-decode-interval-min-bs=0
    --prefill-delayer-max-delay-passes=30 --prefill-max-requests
    --priority-scheduling-preemption-threshold=10 --random-seed
    --remote-instance-weight-loader-seed-instance-service-port --sampling-mask-max-tokens=4096
    --scheduler-recv-interval=1 --shared-experts-tp-size --sm-group-num=8
    --smg-http-sidecar-port|--grpc-http-sidecar-port --speculative-dflash-block-size
    --speculative-domino-candidate-pool-size=2048 --speculative-draft-sink-size
    --speculative-draft-window-size --speculative-dspark-block-size --speculative-eagle-topk
    --speculative-ngram-capacity=10000000 --speculative-ngram-external-corpus-max-tokens=10000000
    --speculative-ngram-external-sam-budget=0 --speculative-ngram-max-bfs-breadth=10
    --speculative-ngram-max-trie-depth=18 --speculative-ngram-min-bfs-breadth=1
    --speculative-num-draft-tokens --speculative-num-steps --stream-interval=1 --swa-prefix-tails
    --tokenizer-worker-num=1 --torch-compile-max-bs=32 --tp-size|--tensor-parallel-size=1
    --triton-attention-num-kv-splits=8 --triton-attention-split-tile-size --weight-cache-timeout=1800
    --weight-loader-prefetch-num-threads=4
    """,
    "float": """
    --disaggregation-decode-host-receive-threshold=1.0 --dynamic-batch-tokenizer-batch-timeout=0.002
    --elastic-ep-scale-timeout=600 --eplb-min-rebalancing-utilization-threshold=1.0
    --gc-warning-threshold-secs=0.0 --hicache-host-memory-fraction=0.8 --hicache-ratio
    --lora-drain-wait-threshold=0.0 --mamba-full-memory-ratio --mem-fraction-static
    --prefill-delayer-max-delay-ms --prefill-delayer-queue-min-ratio
    --prefill-delayer-token-usage-low-watermark --schedule-conservativeness=1.0 --soft-watchdog-timeout
    --speculative-accept-threshold-acc=1.0 --speculative-accept-threshold-single=1.0 --swa-full-tokens-ratio
    --tbo-token-distribution-threshold=0.48 --watchdog-timeout=300
    """,
    "str": """
    --admin-api-key --api-key --attention-backend --bf16-gemm-backend=auto --boundary-reduction=auto
    --chat-template --completion-template --config --constrained-json-whitespace-pattern --context-length
    --cp-strategy --crash-dump-folder --cuda-graph-backend-decode --cuda-graph-backend-prefill
    --cuda-graph-config --dcp-comm-backend --debug-tensor-dump-input-file --debug-tensor-dump-output-folder
    --decode-attention-backend --decoupled-spec-bind-endpoint --decoupled-spec-connect-endpoints
    --decoupled-spec-role=null --decrypted-config-file --decrypted-draft-config-file --deepep-config
    --deepep-dispatcher-output-dtype=auto --deepep-mode=auto --deepep-v2-mode=direct
    --default-chat-template-kwargs --device --disaggregation-decode-allocation-policy=early
    --disaggregation-decode-retraction-backup --disaggregation-ib-device --disaggregation-mode=null
    --disaggregation-transfer-backend=mooncake --dist-init-addr|--nccl-init-addr --dllm-algorithm
    --dllm-algorithm-config --download-dir --dsa-decode-backend --dsa-paged-mqa-logits-backend=auto
    --dsa-prefill-backend --dsa-topk-backend=sgl-kernel --dsv4-attn-backend=auto --dsv4-prefill-backend=auto
    --dtype=auto --elastic-ep-backend --elastic-ep-join-mode --encoder-transfer-backend=auto
    --ep-dispatch-algorithm --eplb-algorithm=auto --expert-balancedness-report-mode=off
    --expert-distribution-recorder-mode --export-metrics-to-file-dir --extra-metric-labels
    --fastapi-root-path --file-storage-path --flashinfer-a2a-dispatch-type
    --flashinfer-allreduce-fusion-backend --flashinfer-mxfp4-moe-precision=default --flexkv-config-file
    --forward-hooks --forward-pass-metrics-ipc-name --forward-pass-metrics-worker-id --fp4-gemm-backend=auto
    --fp8-gemm-backend=auto --grammar-backend --hf-chat-template-name --hicache-host-memory-mode=cache
    --hicache-io-backend=kernel --hicache-mem-layout=page_first --hicache-storage-backend
    --hicache-storage-backend-extra-config --hicache-storage-prefetch-policy=timeout
    --hicache-write-policy=write_through --hisparse-config|--hierarchical-sparse-attention-extra-config
    --host=127.0.0.1 --image-processor-backend=auto --init-expert-location=trivial
    --json-model-override-args={} --kt-method=AMXINT4 --kt-weight-path --kv-cache-dtype=auto
    --kv-canary-real-data --kv-canary=none --kv-events-config --limit-mm-data-per-request
    --linear-attn-backend=triton --linear-attn-decode-backend --linear-attn-prefill-backend
    --linear-attn-verify-backend --lmcache-config-file --load-balance-method=auto --load-format=auto
    --load-publish-endpoint --log-level-http --log-level=info --log-requests-format=text
    --lora-backend=csgmv --lora-eviction-policy=lru --mamba-backend=triton --mamba-radix-cache-strategy=auto
    --mamba-ssm-dtype --max-prefill-tokens=16384 --max-total-tokens --mm-attention-backend
    --mm-feature-transport --mm-global-cache-backend=mooncake --mm-process-config --model-config-parser=auto
    --model-impl=auto --model-loader-extra-config={} --model-path|--model --modelexpress-config
    --modelopt-checkpoint-restore-path --modelopt-checkpoint-save-path --modelopt-export-path
    --modelopt-quant --moe-a2a-backend=none --moe-runner-backend=auto --monokernel-backend
    --mooncake-ib-device --msprobe-dump-config --offload-mode=cpu --otlp-service-name
    --otlp-traces-endpoint=localhost:4317 --pdmux-config-path --ple-offload-backend=pinned --ple-offload-dir
    --preferred-sampling-params --prefill-attention-backend --prefill-kv-cache-dequant-dtype=auto
    --qsa-indexer-dtype=auto --quantization --quantization-param-path --radix-cache-backend
    --radix-eviction-policy-config --radix-eviction-policy=lru --reasoning-parser
    --remote-instance-weight-loader-backend=nccl --remote-instance-weight-loader-seed-instance-ip
    --remote-instance-weight-loader-send-weights-group-ports --retraction-policy=length
    --return-hidden-states-mode --revision --rl-on-policy-target --rl-quant-profile --sampling-backend
    --sampling-defaults=model --schedule-policy=fcfs --served-model-name --sidecar --sidecar-args
    --spec-trace-dir --speculative-adaptive-config --speculative-algorithm
    --speculative-attention-mode=prefill --speculative-draft-attention-backend
    --speculative-draft-kv-cache-dtype --speculative-draft-load-format
    --speculative-draft-model-path|--speculative-draft-model --speculative-draft-model-quantization
    --speculative-draft-model-revision --speculative-dsa-topk-backend=sgl-kernel
    --speculative-dspark-confidence-sts-path --speculative-dspark-sps-table-path
    --speculative-moe-a2a-backend --speculative-moe-runner-backend --speculative-ngram-external-corpus-path
    --speculative-ngram-match-type=BFS --speculative-token-map --ssl-ca-certs --ssl-certfile --ssl-keyfile
    --ssl-keyfile-password --startup-weight-load-mode=serial --tokenizer-backend=huggingface
    --tokenizer-metrics-custom-labels-header=x-custom-labels --tokenizer-mode=auto --tokenizer-path
    --tool-call-parser --tool-server --trace-modules=request
    --unified-cache-external-linker-backend=mooncake --unified-cache-external-linker-config --uno-lora-path
    --warmups --watermark-config --weight-cache-mode=off --weight-cache-socket --weight-version=default
    """,
    "list": """
    --allowed-media-domains --bucket-e2e-request-latency --bucket-inter-token-latency
    --bucket-time-to-first-token --cuda-graph-bs-decode --cuda-graph-bs-prefill --custom-weight-loader
    --debug-tensor-dump-layers --encoder-register-urls --encoder-urls --flashinfer-autotune-skip-ops
    --gc-threshold --generation-tokens-buckets --log-requests-target --lora-paths --lora-target-modules
    --numa-node --prefill-delayer-forward-passes-buckets --prefill-delayer-wait-seconds-buckets
    --prompt-tokens-buckets --return-aux-hidden-state-layer-ids --tokenizer-metrics-allowed-custom-labels
    --uvicorn-access-log-exclude-prefixes
    """,
    "opt": """
    --model-checksum
    """,
}
