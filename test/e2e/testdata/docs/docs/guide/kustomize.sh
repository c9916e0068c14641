kubectl delete deployment/web configmap/app
# The files come one by one, the kustomization first.
build() {
  case $1 in
  deployment.yaml) like_web Deployment apps/v1 | sed 's/name: app/name: web/' | complete $1 && kubectl apply -k . ;;
  block.yaml) sed -i '/^generatorOptions/,$d' kustomization.yaml && cat $1 >>kustomization.yaml && kubectl apply -k . ;;
  esac
}
yaml "$(declare -f build); build \$1"
