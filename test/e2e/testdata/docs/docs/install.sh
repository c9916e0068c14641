## In single namespaces
kubectl create namespace "$NS-team-b"
later kubectl delete namespace "$NS-team-b"

## Finalizers
attached kept

## Anchors
grep kept protected.txt
kubectl create configmap confrev-anchor
