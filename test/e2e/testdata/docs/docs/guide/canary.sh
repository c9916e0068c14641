## Argo Rollouts
yaml 'like_web Rollout argoproj.io/v1alpha1 | complete $1 && kubectl apply -f $1'

## Deployments
yaml ''

## StatefulSets and DaemonSets
like_web StatefulSet apps/v1 | kubectl create -f -
