## Rendering: unique names from the pipeline
kubectl delete deployment/web configmap/app
# Copies of the same content have the names of revisions.
eventually '! kubectl get configmaps -o name | grep /app-'
rm -r deploy && mkdir deploy && cp docs/examples/web.yaml deploy
# Rendered again, its names are still those of the content.
yaml 'csplit --quiet --suppress-matched --prefix part $1 /^---/ {*} && like_web Deployment apps/v1 | complete part02 &&
  for part in part0?; do kubectl apply -f $part && echo --- && cat $part && echo ---; done >applied && sed -n "/^---/,$ p" applied | kubectl confrev render >rendered && grep app-5kmc2ft4ds rendered'

## Checksums only
yaml ''

## Helm
kubectl delete deployment/web configmap/app
cp -r $ROOT/deploy/helm-plugin deploy
cp -r $ROOT/test/e2e/testdata/render/chart charts/web

## kustomize and kpt
helm uninstall web
csplit --quiet --suppress-matched --prefix part docs/examples/web.yaml /^---/
mv part00 app.yaml && mv part01 web.yaml
# A part of the annotations of render.yaml.
yaml 'test $1 != block.yaml || (sed "/annotations:/q" render.yaml && cat $1 && echo "spec: {}") >container.yaml'

## Other kinds
yaml '(cat docs/examples/web.yaml; echo ---; echo "{apiVersion: monitoring.coreos.com/v1, kind: Prometheus, metadata: {name: web}, spec: {configMaps: [app]}}") >more.yaml &&
  kubectl confrev render -f more.yaml --references $1 | grep -A 1 configMaps: | grep app-5dmpglbsd9'
