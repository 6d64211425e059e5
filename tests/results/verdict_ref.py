# The terse reference of the verdict rule, as it was simulated with: tests compare stats.judge with it, case by case.
# ruff: noqa
# mypy: ignore-errors
# fmt: off
"""Reference (scalar) implementation of the recommended rule. base/new: list of launches, each a list of runs."""
import numpy as np, math
from scipy import stats
Z,NU0,TAU0,NUW,SIG0=3.0,4.0,.01,4.0,.01
TOL,MAXLOSS,SURE_A=math.log(1/.97),math.log(1/.90),.002
CD={3:2.40,4:1.66,5:1.45,6:1.37,7:1.31,8:1.27,9:1.25,10:1.23}; CL={1:1.,2:1.,3:1.35,4:1.19}
def vn(n): return CL.get(n,1.13)/n
def loc(x,pick):                       # x = oriented logs of one launch
    n=len(x)
    if n<=2: return pick(x)            # most favourable to "no change"
    return float(np.median(x)) if n<=4 else float(stats.trim_mean(x,.2))
def spread(x):                         # SD after dropping the run farthest from the median
    x=np.asarray(x); j=abs(x-np.median(x)).argmax(); return CD[min(len(x),10)]*np.delete(x,j).std(ddof=1)
def compare(base,new,higher_is_better=True,sure_look=None,maxloss=MAXLOSS,pool=(0.,0)):
    sg=1 if higher_is_better else -1
    B=[sg*np.log(l) for l in base]; X=[sg*np.log(l) for l in new]
    K,k=len(B),len(X); nb=min(map(len,B)); nn=min(map(len,X)); N=sum(map(len,X))
    ss=df=0.
    for l in B+X:
        if len(l)>=3: e=.6*(len(l)-1); ss+=e*spread(l)**2; df+=e
    sw2=(NUW*SIG0**2+ss)/(NUW+df); sobs=math.sqrt(ss/df) if df else 0.
    mb=np.array([loc(l,np.mean) for l in B]); lo=np.array([loc(l,max) for l in X]); hi=np.array([loc(l,min) for l in X])
    SS=((mb-mb.mean())**2).sum()+(((lo-lo.mean())**2).sum() if nn>=3 else 0); dl=K-1+(k-1 if nn>=3 else 0)
    s2=(NU0*(TAU0**2+sw2*vn(nb))+SS+pool[0])/(NU0+dl+pool[1])
    se=math.sqrt(s2*(1/K+1/k)+max(0,vn(nn)-vn(nb))*sw2/k)
    z=Z if sure_look is None else stats.t.ppf(1-SURE_A,NU0+dl)
    h=z*se; d=lo.mean()-mb.mean(); du=hi.mean()-mb.mean()
    T=max(TOL,h,{1:math.log(1/.8),2:math.log(1/.9)}.get(N,0))
    u1=sobs>.04; u2=False
    for l in X:
        if len(l)>=5:
            q=np.diff(l); g=np.diff(np.sort(l))[1:len(l)-2]; j=g.argmax(); s=np.sort(l)
            u2|=bool(((q>0).all() or (q<0).all()) and abs(l[-1]-l[0])>.05)
            u2|=bool(g[j]>.03 and g[j]>4*max(s[j+1]-s[0],s[-1]-s[j+2],.003))
    if d<-T and not(u1 and d>-math.log(1/.85)): v='regressed'
    elif u1 or u2: v='unstable'
    elif du>T: v='improved'
    elif N>=3 and d-h>-maxloss: v='ok'
    else: v='inconclusive'
    g=max(abs(d),maxloss-abs(d)); need=None
    if v=='inconclusive':
        if nn<5: need=('runs',5-nn)
        else:
            r=g*g/(Z*Z*s2)-1/K
            need=('new launches',max(1,math.ceil(1/r)-k)) if r>1/6 else ('launches each side',math.ceil(18*s2/g**2))
    return dict(verdict=v,change=math.expm1(d),T=-math.expm1(-T),ruled_out=-math.expm1(min(0,d-h)),s=math.sqrt(s2),need=need)
if __name__ == '__main__':
    print(compare([[100,101,99,100,102]],[[90,91,89,90,92]])); print(compare([[100,101,99,100,102]],[[96]])); print(compare([[.2,.21,.2,.19,.2]],[[.26,.25,.27,.26,.25]],False))
