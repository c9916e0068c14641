## A new Deployment has no ReplicaSet
kubectl delete deployment/web configmap/app
like_web Deployment apps/v1 | kubectl create -f -
