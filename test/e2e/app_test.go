//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/workload"
)

// app is a workload of some kind, and its ConfigMap and Secret, which its pods refer to in every form.
type app struct {
	*world
	subject
	name         string
	conf, secret string
	// job is the last Job of a kind that has such holders.
	job string
	// form returns the template: everyForm, unless a test sets another.
	form func(name, conf, secret string) map[string]any
	// referrerFirst makes what refers to the template before what has it.
	referrerFirst bool
}

// app names a workload that is not there yet, with sources of its own.
func (w *world) app(s subject, name string) *app {
	return &app{world: w, subject: s, name: name, conf: name + "-conf", secret: name + "-cred", form: everyForm}
}

// sourceKey is the key of the sources that all references take.
const sourceKey = "key"

// createSources makes the sources with a value.
func (a *app) createSources(value string) {
	a.Helper()
	a.Create(configMap(a.conf, sourceKey, value), secret(a.secret, corev1.SecretTypeOpaque, sourceKey, value))
}

// createWorkload makes the workload, opted in by annotations, and what it needs.
func (a *app) createWorkload(annotations map[string]string) {
	a.Helper()
	for _, obj := range a.objects(annotations) {
		a.Create(obj)
	}
}

// objects returns the workload and what it needs, in the order in which they are made.
func (a *app) objects(annotations map[string]string) []*unstructured.Unstructured {
	template := a.form(a.name, a.conf, a.secret)
	var all []*unstructured.Unstructured
	if a.others != nil {
		all = a.others(a.name, template)
	}
	obj := objectOf(a.kind.GVK, a.name, a.spec(a.name, template))
	// Settings count on the object with the template.
	for _, with := range append(slices.Clone(all), obj) {
		if with.GroupVersionKind() == a.templated.GVK {
			with.SetAnnotations(annotations)
		}
	}
	if a.referrerFirst {
		return append([]*unstructured.Unstructured{obj}, all...)
	}
	return append(all, obj)
}

// launch makes a tracked workload with the value A in its sources, and waits until its pods read that.
func (w *world) launch(s subject, name string) (a *app, pinned pins) {
	w.Helper()
	a = w.app(s, name)
	a.createSources("A")
	a.createWorkload(map[string]string{keys.Track: "all"})
	return a, a.reads("A")
}

// editTo changes both sources at once and waits until the workload has rolled the change out.
func (a *app) editTo(value string) pins {
	a.Helper()
	a.editBoth(value)
	return a.reads(value)
}

// editBoth changes both sources, which is one rollout.
func (a *app) editBoth(value string) {
	a.Helper()
	a.AtOnce(func() {
		a.Edit(a.conf, sourceKey, value)
		a.EditSecret(a.secret, sourceKey, value)
	})
}

// pins are those of the two sources.
type pins struct{ conf, secret pin.Pin }

func (p pins) String() string { return p.conf.String() + " " + p.secret.String() }

// revisions returns the names that pods read.
func (p pins) revisions() string { return p.conf.Revision + " " + p.secret.Revision }

func (a *app) resource() string { return a.kind.Resource() + "/" + a.name }

func (a *app) read(kind workload.Kind) *unstructured.Unstructured {
	a.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind.GVK)
	a.Must(a.Get(a.name, obj))
	return obj
}

// object returns the workload as its user sees it, templateObject the one with the template, on which it is opted in.
func (a *app) object() *unstructured.Unstructured         { return a.read(a.kind) }
func (a *app) templateObject() *unstructured.Unstructured { return a.read(a.templated) }

// patch patches the workload.
func (a *app) patch(text string) {
	a.Helper()
	a.Kubectl("patch", a.resource(), "--type=merge", "-p", text)
}

// pinned reads the pins of the template.
func (a *app) pinned() pins {
	a.Helper()
	set, err := a.templated.Pins(a.templateObject())
	a.Must(err)
	return pins{set[pin.Source{Kind: pin.ConfigMap, Name: a.conf}], set[pin.Source{Kind: pin.Secret, Name: a.secret}]}
}

// reads waits until the workload has rolled out revisions with a value, and its pods read them.
func (a *app) reads(value string) pins {
	a.Helper()
	p := a.waitPinnedTo(value)
	if a.start != nil {
		a.start(a)
	}
	a.allRead(p)
	return p
}

// waitPinnedTo waits until the workload is pinned to revisions with a value, and has rolled them out.
func (a *app) waitPinnedTo(value string) pins {
	a.Helper()
	var p pins
	a.Eventually(fmt.Sprintf("%s rolls out %q", a.resource(), value), func() string {
		p = a.pinned()
		if p.conf == (pin.Pin{}) || p.secret == (pin.Pin{}) {
			return "pinned to " + p.String()
		}
		if complaint := a.notHolding(p, value); complaint != "" {
			return complaint
		}
		return a.rollingOut()
	})
	return p
}

// revisionsOf reads the revisions that both sources are pinned to.
func (a *app) revisionsOf(p pins) (*corev1.ConfigMap, *corev1.Secret, error) {
	conf, secret := &corev1.ConfigMap{}, &corev1.Secret{}
	return conf, secret, errors.Join(a.Get(p.conf.Revision, conf), a.Get(p.secret.Revision, secret))
}

func (a *app) notHolding(p pins, value string) string {
	conf, secret, err := a.revisionsOf(p)
	if err != nil {
		return err.Error()
	}
	if conf.Data[sourceKey] != value || string(secret.Data[sourceKey]) != value {
		return fmt.Sprintf("pinned to %s with %q and %q", p, conf.Data[sourceKey], secret.Data[sourceKey])
	}
	return ""
}

// allRead waits until there are as many pods as there should be, and all read the same.
func (a *app) allRead(p pins) {
	a.Helper()
	a.Eventually("all pods of "+a.resource()+" read "+p.revisions(), func() string {
		if got := a.readers(); len(got) != 1 || got[p.revisions()] != a.pods {
			return fmt.Sprint(got)
		}
		return ""
	})
}

// living returns the pods that are not being deleted; of a kind with Jobs, those of the last one.
func (a *app) living() []corev1.Pod {
	a.Helper()
	return slices.DeleteFunc(a.Pods(a.name), func(pod corev1.Pod) bool { return pod.Labels["job-name"] != a.job })
}

// readers counts the pods by the revisions that they read.
func (a *app) readers() map[string]int {
	a.Helper()
	readers := map[string]int{}
	for _, pod := range a.living() {
		readers[readBy(&pod)]++
	}
	return readers
}

// readBy returns the names that a pod made from everyForm refers to, each once: a form that was left out shows.
func readBy(pod *corev1.Pod) string {
	var names []string
	for _, use := range podspec.Uses(&pod.Spec) {
		if use.Name != "kube-root-ca.crt" {
			names = append(names, use.Name)
		}
	}
	if n := podspec.References(&pod.Spec); n != references && n != references+1 {
		names = append(names, fmt.Sprint(n, " references"))
	}
	return strings.Join(names, " ")
}

// holders returns the objects that keep the workload's templates, as its controller made them.
func (a *app) holders() []unstructured.Unstructured {
	a.Helper()
	uid := a.object().GetUID()
	return slices.DeleteFunc(a.list(a.kind.Holder.GVK), func(o unstructured.Unstructured) bool {
		owner := metav1.GetControllerOf(&o)
		return owner == nil || owner.UID != uid
	})
}

func (w *world) list(gvk schema.GroupVersionKind) []unstructured.Unstructured {
	w.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	w.List(list)
	return list.Items
}

// pinsOf returns the text of the pins of the template that a holder keeps.
func (w *world) pinsOf(kind workload.HolderKind, holder *unstructured.Unstructured) string {
	w.Helper()
	obj := kind.New()
	w.Must(runtime.DefaultUnstructuredConverter.FromUnstructured(holder.Object, obj))
	return kind.Facts(obj).Pins
}

// brokenPromise complains when a pod does not read what the holder that it came from was rolled out with.
func (a *app) brokenPromise() string {
	a.Helper()
	holders := a.holders()
	for _, pod := range a.living() {
		i := slices.IndexFunc(holders, func(o unstructured.Unstructured) bool { return cameFrom(&pod, &o) })
		if i < 0 {
			return "no holder of pod " + pod.Name
		}
		set, err := pin.Parse(a.pinsOf(a.kind.Holder, &holders[i]))
		a.Must(err)
		var want []string
		for _, source := range set.Sources() {
			want = append(want, set[source].Revision)
		}
		if got := readBy(&pod); got != strings.Join(want, " ") {
			return fmt.Sprintf("pod %s of %s reads %s, want %s", pod.Name, holders[i].GetName(), got, want)
		}
	}
	return ""
}

// cameFrom reports whether a pod was made from the template that a holder keeps.
func cameFrom(pod *corev1.Pod, holder *unstructured.Unstructured) bool {
	if owner := metav1.GetControllerOf(pod); owner.UID == holder.GetUID() {
		return true
	}
	hash := pod.Labels["controller-revision-hash"]
	return hash != "" && (holder.GetName() == hash || strings.HasSuffix(holder.GetName(), "-"+hash))
}

// waitHolds waits until confrev has noted that the workload is held from both sources.
func (a *app) waitHolds() {
	a.Helper()
	a.Eventually(a.resource()+" is held", func() string {
		note := a.templateObject().GetAnnotations()[keys.Held]
		if !strings.Contains(note, "configmap/"+a.conf+"=") || !strings.Contains(note, "secret/"+a.secret+"=") {
			return fmt.Sprintf("note is %q", note)
		}
		return ""
	})
}

// made returns the names of the revisions of both sources that exist.
func (a *app) made() []string {
	a.Helper()
	var names []string
	for source, kind := range map[string]string{a.conf: "ConfigMap", a.secret: "Secret"} {
		for _, o := range a.list(corev1.SchemeGroupVersion.WithKind(kind)) {
			if o.GetLabels()[keys.Content] != "" && o.GetAnnotations()[keys.SourceName] == source {
				names = append(names, o.GetName())
			}
		}
	}
	slices.Sort(names)
	return names
}

// remove deletes the workload, and what has its template.
func (a *app) remove() {
	a.Helper()
	a.Kubectl("delete", a.resource(), "--wait=false")
	if a.templated != a.kind {
		a.Kubectl("delete", a.templated.Resource(), a.name, "--wait=false")
	}
}

// owners returns the owners of both revisions.
func (a *app) owners(p pins) []metav1.OwnerReference {
	a.Helper()
	conf, secret, err := a.revisionsOf(p)
	a.Must(err)
	return append(conf.OwnerReferences, secret.OwnerReferences...)
}

func (w *world) secretGone(name string) bool {
	return apierrors.IsNotFound(w.Get(name, &corev1.Secret{}))
}

// waitMade waits until the revisions of both sources are just those of some pins.
func (a *app) waitMade(all ...pins) {
	a.Helper()
	var want []string
	for _, p := range all {
		want = append(want, p.conf.Revision, p.secret.Revision)
	}
	slices.Sort(want)
	a.Eventually(fmt.Sprintf("the revisions of %s are %v", a.resource(), all), func() string {
		if got := a.made(); !slices.Equal(got, want) {
			return fmt.Sprintf("have %q, want %q", got, want)
		}
		return ""
	})
}

// waitOwned waits until the workload, and all its holders that pin them, own the revisions.
func (a *app) waitOwned(p pins) {
	a.Helper()
	a.Eventually(fmt.Sprintf("%s and its holders own %s", a.resource(), p), func() string {
		want := map[types.UID]string{a.templateObject().GetUID(): a.templated.Resource()}
		for _, holder := range a.holders() {
			if strings.Contains(a.pinsOf(a.kind.Holder, &holder), "="+p.conf.Revision+"@") {
				want[holder.GetUID()] = holder.GetName()
			}
		}
		if len(want) < 2 && a.start == nil {
			return "no holder pins it"
		}
		conf, secret, err := a.revisionsOf(p)
		if err != nil {
			return err.Error()
		}
		for _, revision := range []client.Object{conf, secret} {
			for uid, who := range want {
				if !slices.ContainsFunc(revision.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == uid }) {
					return fmt.Sprintf("%s does not own %s", who, revision.GetName())
				}
			}
		}
		return ""
	})
}
