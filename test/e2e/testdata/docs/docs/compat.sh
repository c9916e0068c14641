## Switching over
kubectl delete deployment/web
like_web Deployment apps/v1 | sed 's/confrev.io.track: all/reloader.stakater.com\/auto: "true"/' | kubectl create -f -
eventually 'kubectl get deployment web -o yaml | grep "confrev.io/hashes:"'

## Secrets mounted by the CSI driver
# The chart of this cluster does not list the kind.
doctor_finds RestartOnForbidden
