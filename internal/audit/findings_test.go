package audit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// web makes Deployment web of namespace ns.
func web(modifiers ...gen.DeploymentModifier) Workload {
	d := gen.Deployment("web", modifiers...)
	return Workload{
		Kind: workload.Deployment, Namespace: "ns", Name: "web", UID: d.UID, Template: &d.Spec.Template, Annotations: d.Annotations,
		Config: optin.Read(optin.Metadata{Annotations: d.Annotations, TemplateAnnotations: d.Spec.Template.Annotations},
			optin.Defaults{Compat: optin.Compat{Reloader: true, Wave: true}}),
	}
}

// templateAnnotated sets an annotation of the template.
func templateAnnotated(key, value string) gen.DeploymentModifier {
	return func(d *appsv1.Deployment) { metav1.SetMetaDataAnnotation(&d.Spec.Template.ObjectMeta, key, value) }
}

// podOf makes a pod of a ReplicaSet of Deployment web, which runs from second 5000 on.
func podOf(w Workload, replicaSet string) Pod {
	p := pod(5000, w.Template.Spec.DeepCopy())
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: replicaSet, UID: types.UID(replicaSet), Controller: new(true)}}
	return NewPod(p)
}

func holder(w Workload, name string) Holder {
	return Holder{Namespace: "ns", UID: types.UID(name), Controller: w.UID, Names: podspec.Named(&w.Template.Spec)}
}

// copyOf makes the metadata of a ConfigMap that was written once, at second 100.
func copyOf(name string, change ...func(*metav1.PartialObjectMetadata)) Source {
	meta := app(100, wrote(100, colorField))
	meta.Name = name
	for _, c := range change {
		c(meta)
	}
	return NewSource(pin.ConfigMap, meta, false)
}

func autonamedByPulumi(meta *metav1.PartialObjectMetadata) {
	meta.Annotations = map[string]string{autonamed: "true"}
}

func ownedBy(uid types.UID) func(*metav1.PartialObjectMetadata) {
	return func(meta *metav1.PartialObjectMetadata) { meta.OwnerReferences = []metav1.OwnerReference{{UID: uid}} }
}

// leaderRecord makes a ConfigMap one in which candidates note who leads: it is written all the time, and no workload rolls out for it.
func leaderRecord(meta *metav1.PartialObjectMetadata) {
	meta.Annotations = map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}
}

// shown returns findings as lines: severity, reason, object, sources, pods.
func shown(findings []Finding) []string {
	lines := []string{}
	for _, f := range findings {
		lines = append(lines, fmt.Sprintf("%s %s %s %s %d", f.Severity, f.Reason, f.Object, strings.Join(f.Sources, ","), f.Pods))
	}
	return lines
}

// Rules 28 to 30, of workloads.
func TestFindingsAboutWorkloads(t *testing.T) {
	env, files := gen.Template(gen.EnvFrom("configmap/app")), gen.Template(gen.Volume("configmap/app"), mounting(""))
	hashedName := gen.Template(gen.EnvFrom("configmap/app-9cd6bc84mc"))
	tests := map[string]struct {
		workload Workload
		source   Source
		pods     []string // their ReplicaSets
		change   func(*Snapshot)
		want     []string
	}{
		"nothing restarts it":                    {web(env), copyOf("app"), []string{"a"}, nil, []string{"Warning NothingRestarts deployment/web configmap/app 1"}},
		"nothing restarts it, it only has files": {web(files), copyOf("app"), []string{"a"}, nil, []string{"Info NothingRestarts deployment/web configmap/app 1"}},
		"nothing restarts it, it has no pods":    {web(env), copyOf("app"), nil, nil, []string{"Info NothingRestarts deployment/web configmap/app 0"}},
		"a user who may not see pods": {web(env), copyOf("app"), nil, func(s *Snapshot) { s.PodsHidden = true },
			[]string{"Warning NothingRestarts deployment/web configmap/app -1"}},
		"a user who may not see ReplicaSets": {web(env), copyOf("app"), nil, func(s *Snapshot) { s.HiddenUsers = []string{"replicasets"} },
			[]string{"Warning NothingRestarts deployment/web configmap/app -1"}},
		"confrev tracks it":       {web(env, gen.Tracking("all")), copyOf("app"), []string{"a"}, nil, []string{}},
		"confrev tracks another":  {web(env, gen.Tracking("configmap/other")), copyOf("app"), []string{"a"}, nil, []string{"Warning NothingRestarts deployment/web configmap/app 1"}},
		"confrev is told not to":  {web(env, gen.Tracking("none")), copyOf("app"), []string{"a"}, nil, []string{}},
		"confrev restarts for it": {web(env, gen.Annotated(keys.RestartOn, "configmap/app")), copyOf("app"), []string{"a"}, nil, []string{}},
		"confrev has pinned it":   {web(env, gen.Pinned("configmap/app=app-5f7d8c9b2k@1")), copyOf("app"), []string{"a"}, nil, []string{}},
		"a checksum": {web(env, templateAnnotated("checksum/config", "0123")), copyOf("app"), []string{"a"}, nil,
			[]string{"Info ChecksumAnnotation deployment/web configmap/app 1"}},
		"Reloader": {web(env, gen.Annotated("reloader.stakater.com/auto", "true")), copyOf("app"), []string{"a"}, nil,
			[]string{"Info ReloaderAnnotation deployment/web configmap/app 1"}},
		"Reloader, for one source": {web(env, gen.Annotated("configmap.reloader.stakater.com/reload", "app")), copyOf("app"), []string{"a"}, nil,
			[]string{"Info ReloaderAnnotation deployment/web configmap/app 1"}},
		"Wave": {web(env, gen.Annotated("wave.pusher.com/update-on-config-change", "true")), copyOf("app"), []string{"a"}, nil,
			[]string{"Info WaveAnnotation deployment/web configmap/app 1"}},
		"kustomize's names": {web(hashedName), copyOf("app-9cd6bc84mc"), []string{"a"}, nil,
			[]string{"Info HashedNames deployment/web configmap/app-9cd6bc84mc 1"}},
		"a name that looks like kustomize's, and that a shell would run": {web(gen.Template(gen.Volume("configmap/x; reboot; echo a-9cd6bc84mc"))), copyOf("app"),
			[]string{"a"}, nil, []string{}},
		"kustomize's names, attached": {web(hashedName, gen.Annotated(keys.Mode, "attach")), copyOf("app-9cd6bc84mc"), []string{"a"}, nil, []string{}},
		"Pulumi's names": {web(gen.Template(gen.EnvFrom("configmap/app-780bab1d"))), copyOf("app-780bab1d", autonamedByPulumi), []string{"a"}, nil,
			[]string{"Info HashedNames deployment/web configmap/app-780bab1d 1"}},
		"a name that only looks like Pulumi's": {web(gen.Template(gen.EnvFrom("configmap/app-780bab1d"))), copyOf("app-780bab1d"), []string{"a"}, nil,
			[]string{"Warning NothingRestarts deployment/web configmap/app-780bab1d 1"}},
		"an immutable source": {web(env), copyOf("app", func(m *metav1.PartialObjectMetadata) {
			m.ManagedFields = []metav1.ManagedFieldsEntry{wrote(100, immutable)}
		}),
			[]string{"a"}, nil, []string{}},
		"a rollout that shares the source": {web(env), copyOf("app"), []string{"a", "a", "b"}, nil,
			[]string{"Warning SharedDuringRollout deployment/web configmap/app 3", "Warning NothingRestarts deployment/web configmap/app 3"}},
		"a rollout that shares a hashed name": {web(hashedName), copyOf("app-9cd6bc84mc"), []string{"a", "b"}, nil,
			[]string{"Info HashedNames deployment/web configmap/app-9cd6bc84mc 2"}},
		"a rollout that shares what does not exist": {web(env, gen.Tracking("all")), copyOf("other"), []string{"a", "b"}, nil,
			[]string{"Warning SourceMissing deployment/web configmap/app 2", "Warning SharedDuringRollout deployment/web configmap/app 2"}},
		"a rollout that shares what must not restart anything": {web(env), copyOf("app", leaderRecord), []string{"a", "b"}, nil, []string{}},
		"what does not exist": {web(env), copyOf("other"), nil, nil, []string{"Info NothingRestarts deployment/web configmap/app 0"}},
		"confrev tracks what belongs to the workload, and this does": {web(env, gen.Annotated(keys.Owners, "true")), copyOf("app", ownedBy(gen.Deployment("web").UID)), []string{"a"}, nil, []string{}},
		"confrev tracks what belongs to the workload, and this belongs to the object that lends its template": {web(env, gen.Annotated(keys.Owners, "true")),
			copyOf("app", ownedBy("lender")), []string{"a"}, func(s *Snapshot) { s.Workloads[0].Lender = "lender" }, []string{}},
		"confrev tracks what belongs to the workload, and this belongs to another": {web(env, gen.Annotated(keys.Owners, "true")),
			copyOf("app", ownedBy("other")), []string{"a"}, nil, []string{"Warning NothingRestarts deployment/web configmap/app 1"}},
		"confrev tracks what belongs to the workload, and this does not": {web(env, gen.Annotated(keys.Owners, "true")), copyOf("app"), []string{"a"}, nil,
			[]string{"Warning NothingRestarts deployment/web configmap/app 1"}},
		"confrev tracks what belongs to the workload, and this does not exist": {web(env, gen.Annotated(keys.Owners, "true")), copyOf("other"), nil, nil,
			[]string{"Info NothingRestarts deployment/web configmap/app 0"}},
		"something owns it, and nothing tracks it": {web(env), copyOf("app", ownedBy(gen.Deployment("web").UID)), []string{"a"}, nil,
			[]string{"Warning NothingRestarts deployment/web configmap/app 1"}},
		"a checksum of what is in no ConfigMap": {web(templateAnnotated("checksum/config", "0123")), copyOf("app"), []string{"a"}, nil, []string{}},
		"Reloader, in the template": {web(env, templateAnnotated("reloader.stakater.com/auto", "true")), copyOf("app"), []string{"a"}, nil,
			[]string{"Info ReloaderAnnotation deployment/web configmap/app 1"}},
		"kustomize's names, and pins from before": {web(hashedName, gen.Untracked, templateAnnotated(keys.Pins, "configmap/other=other-5f7d8c9b2k@1")),
			copyOf("app-9cd6bc84mc"), []string{"a"}, nil, []string{}},
		"a namespace that confrev leaves alone": {web(env), copyOf("app"), []string{"a", "b"}, func(s *Snapshot) { s.LeftAlone = []string{"ns"} }, []string{}},
		"a template that another workload uses": {web(env), copyOf("app"), nil, func(s *Snapshot) { s.Workloads[0].LendsTemplate = true }, []string{}},
		"a CronJob":                             {Workload{Kind: workload.CronJob, Namespace: "ns", Name: "tidy", Template: web(env).Template}, copyOf("app"), nil, nil, []string{}},
		"no template":                           {Workload{Kind: workload.Rollout, Namespace: "ns", Name: "web"}, copyOf("app"), nil, nil, []string{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			snapshot := Snapshot{Margin: margin, Workloads: []Workload{test.workload}, Sources: []Source{test.source}}
			for _, replicaSet := range test.pods {
				snapshot.Pods = append(snapshot.Pods, podOf(test.workload, replicaSet))
				snapshot.Holders = append(snapshot.Holders, holder(test.workload, replicaSet))
			}
			if test.change != nil {
				test.change(&snapshot)
			}
			report := Run(snapshot)
			if diff := cmp.Diff(test.want, shown(report.Findings)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, f := range report.Findings {
				if f.Fix == "" || f.Message == "" {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// Rule 31.
func TestCopiesThatNothingUses(t *testing.T) {
	secret := func(name string) Source {
		s := copyOf(name)
		s.Kind = pin.Secret
		return s
	}
	users := web(gen.Template(gen.EnvFrom("configmap/app-9cd6bc84mc")))
	tests := map[string]struct {
		sources []Source
		change  func(*Snapshot)
		want    []string
	}{
		"one of two is used":             {[]Source{copyOf("app-9cd6bc84mc"), copyOf("app-7cd6bc84mc")}, nil, []string{"Warning UnusedCopies configmap/app-* configmap/app-7cd6bc84mc 0"}},
		"the only one is used":           {[]Source{copyOf("app-9cd6bc84mc")}, nil, nil},
		"the name says nothing":          {[]Source{copyOf("plain"), copyOf("also-plain")}, nil, nil},
		"Pulumi's, by its annotation":    {[]Source{copyOf("db-nyn4tlkx", autonamedByPulumi)}, nil, []string{"Warning UnusedCopies configmap/db-* configmap/db-nyn4tlkx 0"}},
		"it looks like Pulumi's, alone":  {[]Source{copyOf("db-780bab1d")}, nil, nil},
		"it looks like Pulumi's, as two": {[]Source{copyOf("db-780bab1d"), copyOf("db-880bab1d")}, nil, []string{"Warning UnusedCopies configmap/db-* configmap/db-780bab1d,configmap/db-880bab1d 0"}},
		"words are no random ends":       {[]Source{copyOf("db-defaced"), copyOf("db-effaced")}, nil, nil},
		"something owns it":              {[]Source{copyOf("app-7cd6bc84mc", func(m *metav1.PartialObjectMetadata) { m.OwnerReferences = []metav1.OwnerReference{{}} })}, nil, nil},
		"a Secret of the same name":      {[]Source{secret("app-9cd6bc84mc")}, nil, []string{"Warning UnusedCopies secret/app-* secret/app-9cd6bc84mc 0"}},
		"an old ReplicaSet names it": {[]Source{copyOf("app-7cd6bc84mc")}, func(s *Snapshot) {
			s.Holders = []Holder{{Namespace: "ns", Names: []pin.Source{gen.Source("configmap/app-7cd6bc84mc")}}}
		}, nil},
		"a ReplicaSet of another namespace": {[]Source{copyOf("app-7cd6bc84mc")}, func(s *Snapshot) {
			s.Holders = []Holder{{Namespace: "other", Names: []pin.Source{gen.Source("configmap/app-7cd6bc84mc")}}}
		},
			[]string{"Warning UnusedCopies configmap/app-* configmap/app-7cd6bc84mc 0"}},
		"an Ingress names it": {[]Source{secret("app-7cd6bc84mc")}, func(s *Snapshot) { s.Named = []Ref{{"ns", gen.Source("secret/app-7cd6bc84mc")}} }, nil},
		"a pod that has ended names it": {[]Source{copyOf("app-7cd6bc84mc")}, func(s *Snapshot) {
			p := pod(1, gen.PodSpec(gen.EnvFrom("configmap/app-7cd6bc84mc")))
			p.Status.Phase = corev1.PodSucceeded
			s.Pods = []Pod{NewPod(p)}
		}, nil},
		"a pod pulls images with it": {[]Source{secret("app-7cd6bc84mc")}, func(s *Snapshot) {
			p := pod(1, gen.PodSpec())
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "app-7cd6bc84mc"}}
			s.Pods = []Pod{NewPod(p)}
		}, nil},
		"the user may not see all users": {[]Source{copyOf("app-7cd6bc84mc")}, func(s *Snapshot) { s.HiddenUsers = []string{"replicasets"} },
			[]string{"Unknown UnusedCopies configmap/app-* configmap/app-7cd6bc84mc 0"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			snapshot := Snapshot{Workloads: []Workload{users}, Sources: test.sources}
			if test.change != nil {
				test.change(&snapshot)
			}
			var copies []Finding
			for _, f := range Run(snapshot).Findings {
				if f.Reason == UnusedCopies {
					copies = append(copies, f)
				}
			}
			if diff := cmp.Diff(append([]string{}, test.want...), shown(copies)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for _, f := range copies {
				if strings.Contains(f.Fix, "delete") || !strings.Contains(f.Fix, "-e "+strings.Split(f.Sources[0], "/")[1]) {
					t.Errorf("the command is %s", f.Fix)
				}
			}
		})
	}
}

// The commands do what each kind needs.
func TestFixesOfStalePods(t *testing.T) {
	spec := gen.Template(gen.EnvFrom("configmap/app"))
	tests := map[string]struct {
		owner    *metav1.OwnerReference
		kind     workload.Kind
		object   string
		fix      string
		severity Severity
	}{
		"a Deployment":     {nil, workload.Deployment, "deployment/web", "kubectl rollout restart deployment/web -n ns", Warning},
		"a StatefulSet":    {nil, workload.StatefulSet, "statefulset/web", "kubectl rollout restart statefulset/web -n ns", Warning},
		"a Rollout":        {nil, workload.Rollout, "rollout/web", "kubectl argo rollouts restart web -n ns", Warning},
		"a CronJob":        {nil, workload.CronJob, "cronjob/web", "", Info},
		"a bare pod":       {&metav1.OwnerReference{}, workload.Deployment, "pod/web", "kubectl get pod web -n ns -o yaml | kubectl replace --force -f -", Warning},
		"an unknown owner": {&metav1.OwnerReference{Kind: "Kafka", Name: "main", UID: "x", Controller: new(true)}, workload.Deployment, "kafka/main", "recreates them", Warning},
		"an owner whose name a shell would run": {&metav1.OwnerReference{Kind: "POD", Name: "$(reboot)", UID: "x", Controller: new(true)},
			workload.Deployment, "pod/web", "kubectl get pod web -n ns -o yaml | kubectl replace --force -f -", Warning},
		"an owner whose kind a shell would run": {&metav1.OwnerReference{Kind: "x;reboot", Name: "main", UID: "x", Controller: new(true)},
			workload.Deployment, "pod/web", "kubectl get pod web -n ns -o yaml | kubectl replace --force -f -", Warning},
		"an owned ReplicaSet that may not be seen": {&metav1.OwnerReference{Kind: "ReplicaSet", Name: "web-1", UID: "x", Controller: new(true)},
			workload.Deployment, "replicaset/web-1", "recreates them", Warning},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := web(spec, gen.Tracking("all"))
			w.Kind = test.kind
			stale := pod(50, w.Template.Spec.DeepCopy())
			stale.OwnerReferences = []metav1.OwnerReference{{Kind: w.Kind.GVK.Kind, Name: "web", UID: w.UID, Controller: new(true)}}
			if test.owner != nil {
				stale.OwnerReferences = []metav1.OwnerReference{*test.owner}
			}
			found := Run(Snapshot{Workloads: []Workload{w}, Pods: []Pod{NewPod(stale)}, Sources: []Source{copyOf("app")}}).Findings
			if len(found) != 1 || found[0].Object != test.object || !strings.Contains(found[0].Fix, test.fix) || found[0].Severity != test.severity {
				t.Errorf("%+v", found)
			}
			if test.fix == "" && len(found) == 1 && found[0].Fix != "" {
				t.Errorf("the fix is %s", found[0].Fix)
			}
		})
	}
}

// Rule 27: a source that is as old as its workload, or has a hash in its name, had no other content before.
func TestASourceThatIsTheFirst(t *testing.T) {
	tests := map[string]struct {
		source  string
		created int // of the Deployment
		want    []string
	}{
		"as old as its workload":    {"app", 100, []string{}},
		"younger than its workload": {"app", 99, []string{"Unknown StalenessUnknown deployment/web configmap/app 1"}},
		"its name has a hash":       {"app-9cd6bc84mc", 99, []string{"Info HashedNames deployment/web configmap/app-9cd6bc84mc 1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := web(gen.Template(gen.EnvFrom("configmap/"+test.source)), func(d *appsv1.Deployment) {
				if test.source == "app" {
					gen.Tracking("all")(d)
				}
			})
			w.Created = at(test.created).Time
			p := podOf(w, "a")
			p.Created, p.starts = at(100).Time, map[string]start{"app": {at: at(101).Time}}
			report := Run(Snapshot{Margin: margin, Workloads: []Workload{w}, Holders: []Holder{holder(w, "a")}, Pods: []Pod{p}, Sources: []Source{copyOf(test.source)}})
			if diff := cmp.Diff(test.want, shown(report.Findings)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Everything that is missing has a command.
func TestFixOfMissingSources(t *testing.T) {
	reading := pod(50, gen.PodSpec(gen.EnvFrom("configmap/app"), gen.Env("secret/db", "password")))
	found := Run(Snapshot{Pods: []Pod{NewPod(reading)}}).Findings
	want := "kubectl create configmap app -n ns --from-file=PATH\nkubectl create secret generic db -n ns --from-file=PATH"
	if len(found) != 1 || found[0].Reason != SourceMissing || found[0].Fix != want {
		t.Errorf("%+v", found)
	}
}

// A revision is written again whenever an owner is added, and its content never changes.
func TestRevisionsNeverChange(t *testing.T) {
	w := web(gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/app-5f7d8c9b2k")))
	meta := app(100, wrote(9000, immutable))
	meta.Name = "app-5f7d8c9b2k"
	for revision, want := range map[bool]int{true: 0, false: 1} {
		source := NewSource(pin.ConfigMap, meta, revision)
		report := Run(Snapshot{Workloads: []Workload{w}, Holders: []Holder{holder(w, "a")}, Pods: []Pod{podOf(w, "a")}, Sources: []Source{source}})
		if report.Summary.Stale != want || report.Summary.ConfigMaps != want {
			t.Errorf("revision: %v: %+v", revision, report)
		}
	}
}

// Each reason is explained, and one that is a warning is shown before all that are not.
func TestReasonsAreExplained(t *testing.T) {
	if len(Reasons) != len(explanations) {
		t.Errorf("%d reasons, %d explanations", len(Reasons), len(explanations))
	}
	for _, reason := range Reasons {
		if reason.Explain() == "" {
			t.Errorf("%s has no explanation", reason)
		}
	}
	report := Report{Findings: (&findings{others: []Finding{{Severity: Info, Reason: StalePods}, {Severity: Unknown}, {Severity: Warning, Reason: HashedNames}}}).sorted()}
	if report.Worst() != Warning || report.Findings[2].Severity != Info {
		t.Errorf("%+v", report.Findings)
	}
}

func TestChecksumAnnotations(t *testing.T) {
	for key, want := range map[string]bool{
		"checksum/config": true, "example.com/checksum-config": true, "example.com/config-hash": true, "configHash": true, "rollme": true,
		"example.com/rollme": true, "secret.sha256": true, "kubectl.kubernetes.io/restartedAt": false, "wave.pusher.com/config-hash": false,
		"confrev.io/checksum": false, "example.com/controller": false,
	} {
		if isChecksum(key) != want {
			t.Errorf("%s: %v", key, !want)
		}
	}
}
