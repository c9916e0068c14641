## First look
like_web StatefulSet apps/v1 | kubectl create -f -
cronjob | kubectl create -f -
eventually 'kubectl get cronjob web -o yaml | grep confrev.io/pins:'
kubectl create job --from=cronjob/web web-1
kubectl rollout undo deployment/web
eventually 'kubectl get deployment web -o yaml | grep confrev.io/held:'
eventually 'kubectl get controllerrevisions -l app=web -o yaml | grep confrev.io/pins:'
