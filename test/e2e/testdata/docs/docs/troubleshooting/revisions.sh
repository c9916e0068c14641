## A revision cannot be changed or deleted
shows '! kubectl delete configmap app-5dmpglbsd9'

## An attached source hangs in Terminating
attached app-1a2b
kubectl delete configmap app-1a2b --wait=false

## ConfigMaps pile up
kubectl delete deployment/web
like_web Deployment apps/v1 | kubectl create -f -
kubectl confrev status deployment/web --wait
eventually 'kubectl get configmaps -l confrev.io/content -o yaml | grep ownerReferences'
