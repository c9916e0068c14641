## A Deployment stays on an old configuration
kubectl rollout undo deployment/web
eventually 'kubectl get deployment web -o yaml | grep confrev.io/held:'

## A StatefulSet stays broken after an undo
kubectl delete deployment/web
like_web StatefulSet apps/v1 | kubectl create -f -
kubectl rollout status statefulset/web

## Reverted
kubectl delete statefulset/web
like_web Deployment apps/v1 | kubectl create -f -
kubectl patch deployment/web --type merge -p '{"metadata":{"ownerReferences":[
  {"apiVersion":"v1","kind":"ConfigMap","name":"app","uid":"'$(kubectl get configmap app -o jsonpath={.metadata.uid})'"}]}}'

## PinsNotKept
# Its kind and singular stay, since kubectl would take webapp/NAME for one of these.
kubectl get crd prunedapps.e2e.confrev.io -o json | sed -E 's/e2e.confrev.io/apps.example.com/; s/prunedapps/webapps/g' |
  kubectl create -f -
later kubectl delete crd webapps.apps.example.com

## A hash did not restart the workload
kubectl delete deployment/web
kubectl create configmap other --from-literal=level=info
like_web Deployment apps/v1 | sed 's/track: all/track: all, confrev.io\/mode: restart/; s/- configMapRef: {name: app}/&\n        - configMapRef: {name: other}/' |
  kubectl create -f -
kubectl confrev status deployment/web --wait
kubectl patch configmap/app --patch '{"data":{"color":"red"}}'
kubectl confrev status deployment/web --wait
kubectl patch configmap/app --patch '{"data":{"color":"blue"}}'
kubectl confrev status deployment/web --wait
kubectl rollout undo deployment/web
eventually 'kubectl get deployment web -o yaml | grep confrev.io/held-hashes:'

## A Secret is not pinned
kubectl create secret generic web-tls --from-literal=key=example

## Why did my CronJob not run?
cronjob | kubectl create -f -

## A Rollout with workloadRef
kubectl create -f - <<END
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
END
