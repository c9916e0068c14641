package render_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/render"
	"confrev.io/confrev/test/gen"
)

var (
	drawNamespace = rapid.SampledFrom([]string{"", "blue", "kube-system"})
	drawName      = rapid.SampledFrom([]string{"app", "web", "db", strings.Repeat("long.", 50)})
	drawValue     = rapid.SampledFrom([]string{"", "yes", "a\nb\n", "# no comment", " x: {y}", "\t", "'", "😀", "null", "1e3"})
	drawSource    = rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"configmap/", "secret/"}).Draw(t, "kind") + drawName.Draw(t, "name")
	})
	drawAnnotations = rapid.SampledFrom([]map[string]string{
		nil, nil, nil, {keys.Policy: "live"}, {keys.Attach: "true"}, {"helm.sh/hook": "test"}, {"other": "yes"},
	})
	drawAsked = rapid.SampledFrom([]map[string]string{
		nil, nil, nil, {keys.Track: "none"}, {keys.Track: "configmap/app,secret/db"}, {keys.Mode: "restart"}, {keys.Mode: "attach"},
	})
	drawTemplate = rapid.Custom(func(t *rapid.T) gen.PodSpecModifier {
		source := drawSource.Draw(t, "source")
		return rapid.SampledFrom([]gen.PodSpecModifier{
			gen.EnvFrom(source), gen.Env(source, "k", gen.Optional(true)), gen.Volume(source, gen.Items("k")), gen.Projected(gen.Part(source)),
			gen.InitContainer("init", gen.EnvFrom(source)),
		}).Draw(t, "reference")
	})
)

// stream is a stream of manifests, in a form that can be asked.
type stream struct {
	sources   map[string]client.Object
	workloads []*appsv1.Deployment
}

func (s stream) text(t *rapid.T) []byte {
	var objects []client.Object
	for _, key := range slices.Sorted(maps.Keys(s.sources)) {
		objects = append(objects, s.sources[key])
	}
	for _, w := range s.workloads {
		objects = append(objects, w)
	}
	var text bytes.Buffer
	for _, i := range rapid.Permutation(slices.Collect(sequence(len(objects)))).Draw(t, "order") {
		data, err := yaml.Marshal(objects[i])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "---\n%s", data)
	}
	return text.Bytes()
}

func sequence(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := 0; i < n && yield(i); i++ {
		}
	}
}

func place(namespace, source string) string { return namespace + ":" + source }

func drawStream(t *rapid.T) stream {
	s := stream{sources: map[string]client.Object{}}
	for range rapid.IntRange(0, 6).Draw(t, "sources") {
		source, value := gen.Source(drawSource.Draw(t, "source")), drawValue.Draw(t, "value")
		var obj client.Object = gen.ConfigMap(source.Name, map[string]string{"k": value})
		if source.Kind == pin.Secret {
			secret := gen.Secret(source.Name, "", map[string][]byte{"k": []byte(value)})
			secret.StringData = map[string]string{"more": value}
			obj = secret
		}
		obj.SetNamespace(drawNamespace.Draw(t, "namespace"))
		obj.SetAnnotations(maps.Clone(drawAnnotations.Draw(t, "annotations")))
		s.sources[place(obj.GetNamespace(), source.String())] = obj
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "workloads") {
		d := gen.Deployment(fmt.Sprintf("web-%d", i), gen.Template(rapid.SliceOfN(drawTemplate, 0, 6).Draw(t, "template")...))
		d.Namespace, d.Annotations = drawNamespace.Draw(t, "namespace"), maps.Clone(drawAsked.Draw(t, "asked"))
		s.workloads = append(s.workloads, d)
	}
	return s
}

func parseStream(t *rapid.T, text []byte) stream {
	s := stream{sources: map[string]client.Object{}}
	for doc := range strings.SplitSeq(string(text), "---\n") {
		var obj client.Object
		switch {
		case strings.Contains(doc, "\nkind: ConfigMap\n"):
			obj = &corev1.ConfigMap{}
		case strings.Contains(doc, "\nkind: Secret\n"):
			obj = &corev1.Secret{}
		case strings.Contains(doc, "\nkind: Deployment\n"):
			obj = &appsv1.Deployment{}
		default:
			continue
		}
		if err := yaml.UnmarshalStrict([]byte(doc), obj); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
		if d, is := obj.(*appsv1.Deployment); is {
			s.workloads = append(s.workloads, d)
			continue
		}
		kind := pin.Kind(strings.ToLower(obj.GetObjectKind().GroupVersionKind().Kind))
		s.sources[place(obj.GetNamespace(), pin.Source{Kind: kind, Name: obj.GetName()}.String())] = obj
	}
	return s
}

// hashOf returns the hash of an object as the API server stores it, as the controller computes it.
func hashOf(obj client.Object) content.Hash {
	secret, is := obj.(*corev1.Secret)
	if !is {
		return content.FromConfigMap(obj.(*corev1.ConfigMap)).Hash()
	}
	stored := secret.DeepCopy()
	stored.Type = corev1.SecretTypeOpaque
	for key, value := range stored.StringData {
		stored.Data[key] = []byte(value)
	}
	return content.FromSecret(stored).Hash()
}

// Whatever comes in: what was there stays as it was, what is new is immutable and named as the controller would, every
// reference leads to the content that it led to, and rendering again changes nothing.
func TestRenderedReferencesLeadToWhatTheyLedTo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := drawStream(t)
		in := before.text(t)
		out, err := render.Render([]render.File{{Name: "in.yaml", Data: in}}, render.Options{})
		if err != nil {
			t.Fatal(err)
		}
		again, err := render.Render([]render.File{{Name: "in.yaml", Data: out.Text}}, render.Options{})
		if err != nil || !bytes.Equal(out.Text, again.Text) {
			t.Fatalf("rendering again: %v\n%s", err, cmp.Diff(string(out.Text), string(again.Text)))
		}
		after := parseStream(t, out.Text)
		for at, source := range before.sources {
			if diff := cmp.Diff(source, after.sources[at]); diff != "" {
				t.Fatalf("%s was changed: %s", at, diff)
			}
		}
		if len(after.sources) != len(before.sources)+len(out.Revisions) {
			t.Fatalf("%d sources and %d revisions became %d", len(before.sources), len(out.Revisions), len(after.sources))
		}
		made := map[string]string{}
		for _, revision := range out.Revisions {
			from := before.sources[place(revision.Namespace, revision.Source.String())]
			if want := content.RevisionName(from.GetName(), hashOf(from), 0); revision.Revision != want {
				t.Fatalf("%s became %s; the controller names it %s", revision.Source, revision.Revision, want)
			}
			name := pin.Source{Kind: revision.Source.Kind, Name: revision.Revision}
			copied := after.sources[place(revision.Namespace, name.String())]
			if hashOf(copied) != hashOf(from) || copied.GetAnnotations()[keys.Attach] != "true" || !immutable(copied) {
				t.Fatalf("%s is %+v", name, copied)
			}
			made[place(revision.Namespace, revision.Source.String())] = revision.Revision
		}
		for i, w := range ordered(after.workloads) {
			checkWorkload(t, ordered(before.workloads)[i], w, made)
		}
	})
}

func ordered(workloads []*appsv1.Deployment) []*appsv1.Deployment {
	return slices.SortedFunc(slices.Values(workloads), func(a, b *appsv1.Deployment) int { return strings.Compare(a.Name, b.Name) })
}

// checkWorkload replaces the references of a workload as it was, and compares.
func checkWorkload(t *rapid.T, before, after *appsv1.Deployment, made map[string]string) {
	want := before.DeepCopy()
	leftAlone := before.Namespace == "kube-system" || before.Annotations[keys.Track] == "none" || before.Annotations[keys.Mode] == "restart"
	changed := podspec.Rewrite(&want.Spec.Template.Spec, func(s pin.Source) (string, bool) {
		name, is := made[place(before.Namespace, s.String())]
		listed := before.Annotations[keys.Track] == "" || strings.Contains(before.Annotations[keys.Track], s.String())
		return name, is && listed && !leftAlone
	})
	if diff := cmp.Diff(want.Spec, after.Spec); diff != "" {
		t.Fatalf("%s: %s", before.Name, diff)
	}
	if len(changed) > 0 && after.Annotations[keys.Mode] != "attach" || leftAlone && !maps.Equal(before.Annotations, after.Annotations) {
		t.Fatalf("%s has %v", before.Name, after.Annotations)
	}
}

func immutable(obj client.Object) bool {
	if secret, is := obj.(*corev1.Secret); is {
		return secret.Immutable != nil && *secret.Immutable
	}
	configMap := obj.(*corev1.ConfigMap)
	return configMap.Immutable != nil && *configMap.Immutable
}

// FuzzRender checks that nothing panics, that kubectl can read what comes out if it could read what went in, and that what was rendered is
// rendered to itself.
func FuzzRender(f *testing.F) {
	for _, seed := range []string{web, bomb(), resourceList("{kind: Render}"), "--- {a: b}\n...\n", `{"a":"\ud83d\ude00"}{}`, "? a\n: b\n", "\xff\xfe",
		envFrom + "        args:\n        - >\n          a\n            b\n---\n" + configHead + "data: {k: explicit, <<: {k: merged}}\n",
		`{"kind":"ConfigMap","data":{"Makefile":"\tgo build\n"}}` + "\n---\n" + envFrom,
	} {
		f.Add([]byte(seed), false)
	}
	for _, input := range inputs(f) {
		f.Add(read(f, input), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, checksum bool) {
		options := render.Options{Keep: []render.Tool{render.ArgoCD}}
		if checksum {
			options.Mode = render.Checksum
		}
		once, err := render.Render([]render.File{{Name: "in", Data: data}}, options)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("not one line: %q", err)
			}
			return
		}
		if _, err := kubectlReads(data); err == nil {
			if _, err := kubectlReads(once.Text); err != nil {
				t.Errorf("%q became %q, which kubectl cannot read: %v", data, once.Text, err)
			}
		}
		twice, err := render.Render([]render.File{{Name: "in", Data: once.Text}}, options)
		if err != nil || !bytes.Equal(once.Text, twice.Text) {
			t.Errorf("%q became %q, and that %q: %v", data, once.Text, twice.Text, err)
		}
	})
}
