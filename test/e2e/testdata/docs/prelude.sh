# What the commands of a page run with. The functions stand for programs that would disturb the cluster, which the page shares with other
# tests, or the machine: these calls are only checked, and noted in $CHECKED.

export PATH=$TOOLS:$PATH
export KUBE_EDITOR="sed -i -E 's/^  color: .*/  color: edited/'"
data=$ROOT/test/e2e/testdata/docs

# What fails says so.
trap 'echo "status $?: $BASH_COMMAND" >&2' ERR

# ended waits for what runs in the background, and fails if that has failed, or the last command has, whose status it gets.
ended() {
  local job
  for job in $(jobs -p); do wait "$job"; done
  return "$1"
}

checked() { echo "$*" >>"$CHECKED"; }

kubectl() {
  case "$*" in
  # confrev runs as a process here.
  *"confrev-system logs"*) command kubectl "$@" && cat "$CONFREV_LOG" ;;
  # What the chart installed belongs to Helm, and its webhook has a URL here in place of a Service.
  apply\ --server-side\ -k*)
    checked kubectl "$@" && command kubectl kustomize "${@: -1}" | sed "s/ confrev-pin-workloads/&-$NS/" |
      command kubectl apply --server-side --dry-run=server --force-conflicts -f - ;;
  # What everyone uses.
  delete\ *admission* | create\ clusterrole* | *confrev-system\ annotate* | *confrev-system\ scale*)
    checked kubectl "$@" && command kubectl "$@" --dry-run=server ;;
  # What others protect must stay so.
  *"-A -o go-template"*) command kubectl "${@/#-A/--namespace=$NS}" ;;
  # No is an answer. That confrev's Deployment has no pods is an error.
  confrev\ doctor) command kubectl "$@" || test $? -eq 3 ;;
  *auth\ can-i*) command kubectl "$@" || test $? -eq 1 ;;
  *custom-columns=*) command kubectl "$@" | filled columns ;;
  *jsonpath=*) command kubectl "$@" | filled lines ;;
  *) command kubectl "$@" ;;
  esac
}

# filled passes a table or lines on, and fails if there is a column without a value, or a line without one: kubectl takes a path that
# leads nowhere for one that has no value.
filled() {
  awk -v what="$1" '
    { print; for (i = 1; i <= NF; i++) if (NR > 1 && $i != "<none>") has[i] = 1 }
    NR == 1 { columns = NF }
    what == "lines" && /^([^ ]*: *)?$/ { print "no value on line " NR >"/dev/stderr"; bad = 1 }
    END {
      if (NR == 0) { print "no value" >"/dev/stderr"; exit 1 }
      for (i = 1; what == "columns" && i <= columns; i++) if (!has[i]) { print "no value in column " i >"/dev/stderr"; bad = 1 }
      exit bad
    }'
}

# Nothing need be wrong here: these look for signs of something that is.
grep() {
  case "$*" in
  "-i error" | web | apiserver_admission_webhook_fail_open_count | confrev-anchor) command grep "$@" || test $? -eq 1 ;;
  *) command grep "$@" ;;
  esac
}

# That there are differences is its status.
diff() { command diff "$@" || test $? -eq 1; }

# The chart of this source stands for the one in a registry, from which a test of hack/release pulls it. There is a release already, so what
# would install another one is rendered under another name, and the API server looks at all of its objects.
helm() {
  local args=("${@/#oci:\/\/ghcr.io\/confrev\//}")
  case "$*" in
  "install confrev "*)
    checked helm "$@"
    command helm template "$NS" "${args[@]:2}" --api-versions admissionregistration.k8s.io/v1/MutatingAdmissionPolicy |
      command kubectl create --validate=strict --dry-run=server -f - ;;
  "upgrade confrev "*) checked helm "$@" && command helm "${args[@]}" --dry-run=server >/dev/null ;;
  "uninstall confrev "*) checked helm "$@" && command helm "$@" --dry-run ;;
  *"--post-renderer kubectl-confrev"*) helm3 "$@" ;;
  *) command helm "$@" ;;
  esac
}

# make would start clusters. Not its own dry run: that runs each line with $(MAKE).
make() {
  checked make "$@"
  local word
  for word; do
    case $word in
    *=*) command grep -q "[({]${word%%=*}[)}]" "$ROOT/Makefile" ;;
    *) command grep -Eq "^([a-z0-9 -]+ )?$word( [a-z0-9 -]+)?:" "$ROOT/Makefile" ;;
    esac || { echo "the Makefile has no $word" >&2; return 1; }
  done
}

go() {
  case "$*" in
  "run -C hack/cluster . kubeconfig") echo "$KUBECONFIG" ;;
  # By its name, since the function of that name is to be called.
  "run -C hack/cluster . path "*) command go run -C "$ROOT/hack/cluster" . path "${@: -1}" >/dev/null && echo "${@: -1}" ;;
  "run ./cmd/confrev "*) confrev "${@:3}" ;;
  *) (cd "$ROOT" && GOBIN=$OLDPWD/bin command go "$@") ;;
  esac
}

# It takes these flags; it runs already.
confrev() { checked confrev "$@" && "$CONFREV" "$@" --help >/dev/null; }

sleep() { checked sleep "$@"; }
sudo() { "$@"; }

# The rest is for what pages need, in the files next to this one.

# eventually waits until a command succeeds.
eventually() {
  local began=$SECONDS
  until bash -c "$1" >/dev/null 2>&1; do
    ((SECONDS - began < 240)) || { echo "still not: $1" >&2; return 1; }
    command sleep 0.2
  done
}

# like_web makes a workload of another kind.
like_web() { sed "s|^apiVersion: .*|apiVersion: $2|; s|^kind: .*|kind: $1|" "$data/web.yaml"; }

# attached makes a ConfigMap with a finalizer, since web uses it.
attached() {
  command kubectl create configmap "$1" --from-literal=color=blue
  command kubectl annotate configmap "$1" confrev.io/attach=true confrev.io/protect=true
  command kubectl delete deployment/web
  like_web Deployment apps/v1 | sed "s/name: app}/name: $1}/; s/track: all/mode: attach/" | command kubectl create -f -
  eventually "kubectl get configmap $1 -o yaml | grep '  - confrev.io/protect'"
}

cronjob() {
  command kubectl create cronjob web --image=web:1 --schedule='0 0 1 1 *' --dry-run=client -o json |
    sed '0,/"metadata": {/s//&"annotations": {"confrev.io\/track": "all"},/; s/"image": "web:1",/&"envFrom": [{"configMapRef": {"name": "app"}}],/'
}

# complete fills a file, of which a page shows only a part, with the rest from its input, which opts nothing in.
complete() { sed '/^  annotations: /d' >.rest && command kubectl patch --local -f .rest --type merge --patch-file "$1" -o yaml >.complete && mv .complete "$1"; }

# in_a_chart installs what a page shows the beginning of as the template of a chart.
in_a_chart() {
  mkdir -p charts/web/templates
  echo '{apiVersion: v2, name: web, version: 1.0.0}' >charts/web/Chart.yaml
  echo '{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}' >charts/web/templates/configmap.yaml
  (cat && echo '      labels: {app: web}' && echo '    spec: {containers: [{name: web, image: "web:1"}]}') >charts/web/templates/web.yaml
  command kubectl delete deployment/web
  command helm install web charts/web
  command kubectl get deployment/web -o yaml | command grep -E 'checksum/config: [0-9a-f]{64}'
}

# later notes what is to be removed when the page has been read, because it is in no namespace.
later() { echo "$*" >>.later; }

# shows sets which command has printed a text that a page begins with.
shows() { echo "$1" >.shows; }

# on sets which object parts of YAML are of, and yaml what is done with all YAML; $1 is then the file that has it. Both hold until they are set
# again.
on() { echo "$1" >.on; }
yaml() { echo "$1" >.yaml; }

# doctor_finds sets what doctor rightly finds wrong with a section's YAML.
doctor_finds() { echo "$1" >.finds; }
