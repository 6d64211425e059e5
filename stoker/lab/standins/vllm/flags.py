"""Command-line flags of vLLM 0.33.0's ``serve``, by kind (see ``stoker.lab.standins.flags``)."""

from __future__ import annotations

FLAGS: dict[str, str] = {
    "flag": """
    --aggregate-engine-logging --data-parallel-multi-port-external-lb|-dpm --disable-log-stats --grpc
    --headless
    """,
    "pair": """
    --allow-credentials --allow-deprecated-quantization --async-scheduling --cohere-is-reasoning-model
    --cudagraph-metrics --data-parallel-external-lb|-dpe --data-parallel-hybrid-lb|-dph --dcp-q-replicate
    --disable-cascade-attn --disable-chunked-mm-input --disable-custom-all-reduce --disable-fastapi-docs
    --disable-hybrid-kv-cache-manager --disable-nccl-for-dp-synchronization --disable-sliding-window
    --disable-uvicorn-access-log --enable-auto-tool-choice --enable-batch-sharded-sampling
    --enable-cumem-allocator --enable-dbo --enable-elastic-ep --enable-ep-weight-filter --enable-eplb
    --enable-expert-parallel|-ep --enable-fault-tolerance --enable-flash-late-interaction
    --enable-flashinfer-autotune --enable-force-include-usage --enable-hc-sp --enable-layerwise-nvtx-tracing
    --enable-log-deltas --enable-log-outputs --enable-log-requests --enable-logging-iteration-details
    --enable-lora --enable-mamba-cache-stochastic-rounding --enable-mamba-shared-prefix-checkpoint
    --enable-mfu-metrics --enable-mixed-moe-lora-format --enable-mm-embeds --enable-moe-shared-loras
    --enable-nccl-comm-suspend --enable-offline-docs --enable-per-request-metrics --enable-prompt-embeds
    --enable-prompt-tokens-details --enable-request-id-headers --enable-return-routed-experts
    --enable-scale-out --enable-server-load-tracking --enable-shm-tensor-arena --enable-sleep-mode
    --enable-ssl-refresh --enable-tokenizer-info-endpoint --enable-tower-connector-lora
    --enable-trace-replay --enforce-eager --exclude-tools-when-tool-choice-none --fail-on-environ-validation
    --fully-sharded-loras --interleave-mm-strings --jit-monitor-verbose --kv-cache-metrics
    --kv-sharing-fast-prefill --language-model-only --log-error-stack
    --long-prefill-token-threshold-adaptive --mm-encoder-only --monokernel --numa-bind
    --ray-workers-use-nsight --return-sampling-mask --return-tokens-as-token-ids
    --scheduler-reserve-full-isl --skip-mm-profiling --skip-tokenizer-init --sleep-mode-offload-cudagraph
    --specialize-active-lora --swa-bounded-replay --tokens-only --trust-remote-code
    --trust-request-chat-template --trust-request-mm-kwargs --use-fp64-gumbel --use-replayssm
    --use-tqdm-on-load
    """,
    "int": """
    --api-server-count|-asc --block-size --cpu-distributed-timeout-seconds --data-parallel-rank|-dpn
    --data-parallel-rpc-port|-dpp --data-parallel-size-local|-dpl --data-parallel-size|-dp
    --data-parallel-start-rank|-dpr --data-parallel-supervisor-port=9256 --dbo-decode-token-threshold
    --dbo-prefill-token-threshold --dcp-kv-cache-interleave-size=1 --decode-context-parallel-size|-dcp
    --distributed-timeout-seconds --dp-supervisor-probe-failure-threshold=3 --dp-sync-interval
    --elastic-ep-max-dp-size --grpc-port --h11-max-header-count --h11-max-incomplete-event-size
    --kv-cache-memory-bytes --long-prefill-token-threshold --mamba-block-size --mamba-cache-philox-rounds=0
    --master-port=29501 --max-cpu-loras --max-cudagraph-capture-size --max-log-len --max-logprobs
    --max-lora-cls-labels --max-loras --max-model-len --max-num-active-seqs --max-num-queued-reqs
    --max-num-queued-tokens --max-parallel-loading-workers --mm-shm-cache-max-object-size-mb --nnodes|-n
    --node-rank|-r --num-gpu-blocks-override --offload-group-size --offload-num-in-group
    --offload-prefetch-step --pipeline-parallel-size|-pp --port=8000 --prefill-context-parallel-size|-pcp
    --prefill-schedule-interval --prefix-cache-retention-interval --prefix-match-unit
    --renderer-num-workers=1 --replayssm-buffer-len --safetensors-prefetch-block-size
    --safetensors-prefetch-num-threads --seed=0 --shutdown-timeout --spec-tokens --sse-keep-alive-interval=0
    --ssl-cert-reqs --stream-interval --tensor-parallel-size|-tp --ubatch-size
    """,
    "float": """
    --cpu-offload-gb --dp-supervisor-probe-interval-s=5.0 --dp-supervisor-probe-timeout-s=5.0
    --gpu-memory-utilization|--device-memory-utilization --kv-cache-metrics-sample --kv-offloading-size
    --mm-encoder-fp8-scale-save-margin --mm-ipc-gpu-memory-gb --mm-processor-cache-gb --video-pruning-rate
    --watermark
    """,
    "str": """
    --additional-config --all2all-backend=allgather_reducescatter --allowed-local-media-path
    --anthropic-disabled-thinking-effort=auto --attention-backend --attention-config|-ac --aux-output-config
    --chat-template --chat-template-content-format=auto --code-revision --cohere-format=cmd4
    --compilation-config|-cc --config --config-format=auto --convert=auto --cp-kv-cache-interleave-size
    --data-parallel-address|-dpa --data-parallel-backend|-dpb --dcp-comm-backend
    --default-chat-template-kwargs --default-mm-loras --device-ids --diffusion-config|-dc
    --disable-access-log-for-endpoints --distributed-executor-backend --download-dir --dtype=auto
    --ec-manager-config --ec-transfer-config --enable-chunked-prefill --enable-prefix-caching
    --engram-config --eplb-config --expert-placement-strategy=linear --fault-tolerance-config
    --fingerprint-mode=full --fingerprint-value --gdn-prefill-backend --generation-config=auto
    --hf-config-path --hf-overrides --host --io-processor-plugin --ir-op-priority --jit-monitor-mode=warn
    --kda-decode-backend --kda-prefill-backend --kernel-config --kv-cache-dtype=auto --kv-events-config
    --kv-offloading-backend=native --kv-transfer-config --limit-mm-per-prompt --linear-backend
    --load-format=auto --log-config-file --log-level --logging-config --logprobs-mode=raw_logprobs
    --lora-dtype=auto --mamba-backend --mamba-cache-dtype=auto --mamba-cache-mode
    --mamba-ssm-cache-dtype=auto --mamba-ssu-algorithm --master-addr=127.0.0.1 --max-lora-rank=16
    --max-num-batched-tokens --max-num-scheduled-tokens --max-num-seqs --media-io-kwargs
    --mm-device-do-normalize --mm-encoder-attn-backend --mm-encoder-attn-dtype --mm-encoder-fp8-scale-path
    --mm-encoder-fp8-scale-save-path --mm-encoder-tp-mode=weights --mm-hasher-algorithm=blake3
    --mm-processor-cache-type=lru --mm-processor-device --mm-processor-kwargs --mm-tensor-ipc=direct_rpc
    --model-class-overrides --model-impl=auto --model-loader-extra-config --model=Qwen/Qwen3-0.6B
    --moe-backend --offload-backend=auto --optimization-level --otlp-traces-endpoint
    --override-generation-config --per-request-spec-decode-metrics=none --performance-mode=balanced
    --pooler-config --prefix-caching-hash-algo=sha256 --profiler-config --pt-load-map-location=cpu
    --quantization-config --quantization|-q --reasoning-config --reasoning-effort-map --reasoning-parser
    --reasoning-parser-plugin --response-role=assistant --revision --root-path --runner=auto
    --safetensors-load-strategy --scheduler-cls --scheduling-policy=fcfs --show-hidden-metrics-for-version
    --sleep-mode-backend=cumem --sparse-indexer-topk-backend --spec-method --spec-model
    --speculative-config|-sc --ssl-ca-certs --ssl-certfile --ssl-ciphers --ssl-keyfile
    --structured-outputs-config --tokenizer --tokenizer-mode=auto --tokenizer-revision --tool-call-parser
    --tool-parser-plugin --tool-server --tool-strict-level --uds --uvicorn-log-level=info
    --video-pruning-method=evs --watchdog-config --watermark-config --weight-transfer-config
    --worker-cls=auto --worker-extension-cls
    """,
    "list": """
    --allowed-headers --allowed-media-domains --allowed-methods --allowed-origins --api-key
    --collect-detailed-traces --cpu-offload-params --cudagraph-capture-sizes --custom-histogram-buckets
    --ignore-patterns --kv-cache-dtype-skip-layers --logits-processors --lora-modules --lora-target-modules
    --middleware --numa-bind-cpus --numa-bind-nodes --offload-params --served-model-name
    --sleep-preserve-parameter-names
    """,
    "opt": """
    --hf-token
    """,
}
