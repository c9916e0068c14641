## Settings
crd=$(go list -C hack/modules/gitops-engine -m -f '{{.Dir}}' github.com/argoproj/argo-cd/v3)/manifests/crds/application-crd.yaml
kubectl apply --server-side -f $crd
later kubectl delete -f $crd
eventually 'kubectl get applications.argoproj.io'
kubectl create -f - <<END
apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: web}
spec: {project: default, destination: {}, source: {repoURL: https://example.com/web.git}}
END
yaml 'kubectl patch application/web --type merge --patch-file $1'

## Health and actions
kubectl create configmap argocd-cm
