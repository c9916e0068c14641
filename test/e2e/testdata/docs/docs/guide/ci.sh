## Any system
rm -r deploy && mkdir deploy && sed 's/blue/green/' docs/examples/web.yaml >deploy/web.yaml

## GitHub
yaml 'kubectl apply -f $1 && later kubectl delete -f $1'
