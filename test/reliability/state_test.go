//go:build reliability

package reliability

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
)

// state returns what is to be the same however confrev came there, a line for each object, in the words of this package: no uid, no time, no
// resourceVersion. rollouts adds how often each workload has rolled out since w.rollouts was noted.
func (w *world) state(rollouts bool) string {
	w.Helper()
	w.notAnchored()
	all := &corev1.ConfigMapList{}
	w.List(all)
	values := map[string]string{}
	for _, cm := range all.Items {
		values[cm.Name] = cm.Data[color]
	}
	var lines []string
	for _, s := range w.subjects() {
		line := fmt.Sprintf("%s has %s", s, w.pinsOf(s, values))
		if hashes := s.template.Annotations[keys.Hashes]; hashes != "" {
			line += ", hashes " + hashes
		}
		if rollouts {
			line += fmt.Sprint(", rollouts ", s.rolledOut()-w.rollouts[s.String()])
		}
		lines = append(lines, line)
	}
	pinnedBy := w.pinnedBy()
	for _, cm := range all.Items {
		by := pinnedBy[cm.Name]
		w.dropIdle(&cm, by)
		if !rollouts {
			foldHolders(&cm, by)
		}
		if line := describe(&cm); line != "" {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// notAnchored waits until the anchor owns no revision. It does for a while after several workloads, or new ones, have pinned it (rule 14), and for as
// long as its change is stopped (rule 13).
func (w *world) notAnchored() {
	w.Helper()
	w.Eventually("the anchor owns nothing any longer", func() string {
		all := &corev1.ConfigMapList{}
		w.List(all)
		i := slices.IndexFunc(all.Items, func(cm corev1.ConfigMap) bool {
			return cm.Annotations[keys.Propagation] == "" && slices.ContainsFunc(cm.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Name == revision.AnchorName })
		})
		if i < 0 {
			return ""
		}
		return all.Items[i].Name
	})
}

// noteRollouts notes how often workloads have rolled out before anything is tested: without the webhook, which a busy machine may keep from answering in
// time, the first pins are a rollout more (rule 2).
func (w *world) noteRollouts() {
	w.Helper()
	w.rollouts = map[string]int64{}
	for _, s := range w.subjects() {
		w.rollouts[s.String()] = s.rolledOut()
	}
}

// rolledOut returns how often a workload has rolled out: not once if its controller has not seen it.
func (s subject) rolledOut() int64 {
	if s.rollouts == "" {
		return 0
	}
	return mustNumber(s.rollouts)
}

// pinsOf describes the pins and holds of a workload by contents.
func (w *world) pinsOf(s subject, values map[string]string) string {
	w.Helper()
	pins, err := pin.Parse(s.template.Annotations[keys.Pins])
	w.Must(err)
	var parts []string
	for _, of := range pins.Sources() {
		parts = append(parts, fmt.Sprintf("%s=%q@%d", of, values[pins[of].Revision], pins[of].Number))
	}
	notes, err := pin.ParseNotes(s.GetAnnotations()[keys.Held])
	w.Must(err)
	for of, note := range notes {
		parts = append(parts, fmt.Sprintf("%s held from %q@%d (stopped: %t)", of, values[note.From.Revision], note.From.Number, note.Stop != 0))
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return "no pins"
	}
	return strings.Join(parts, ", ")
}

// pinners are what pins a revision.
type pinners struct {
	// workloads are those whose template pins it, or that of one of their holders.
	workloads, holders map[types.UID]bool
}

// pinnedBy returns what pins each revision.
func (w *world) pinnedBy() map[string]pinners {
	w.Helper()
	by := map[string]pinners{}
	add := func(template *corev1.PodTemplateSpec, workload, holder types.UID) {
		pins, err := pin.Parse(template.Annotations[keys.Pins])
		w.Must(err)
		for _, p := range pins {
			if _, ok := by[p.Revision]; !ok {
				by[p.Revision] = pinners{map[types.UID]bool{}, map[types.UID]bool{}}
			}
			by[p.Revision].workloads[workload] = true
			if holder != "" {
				by[p.Revision].holders[holder] = true
			}
		}
	}
	for _, s := range w.subjects() {
		add(&s.template, s.GetUID(), "")
	}
	for _, kind := range []workload.HolderKind{workload.ReplicaSet, workload.ControllerRevision} {
		list := kind.NewList()
		w.List(list)
		w.Must(meta.EachListItem(list, func(item runtime.Object) error {
			holder := item.(client.Object)
			template, err := kind.Template(holder)
			if controller := metav1.GetControllerOf(holder); err == nil && controller != nil {
				add(template, controller.UID, holder.GetUID())
			}
			return err
		}))
	}
	return by
}

// dropIdle drops from the owners of a revision the workloads that no longer use it. One that owned the revision when it moved on still does, since
// confrev removes no owner. If the anchor owned it then, that workload is none of those to which the anchor gives it back (rule 14).
func (w *world) dropIdle(cm *corev1.ConfigMap, by pinners) {
	w.Helper()
	if cm.Annotations[keys.Number] == "" {
		return
	}
	for _, s := range w.subjects() {
		cm.OwnerReferences = slices.DeleteFunc(cm.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == s.GetUID() && !by.workloads[o.UID] })
	}
}

// foldHolders replaces the holders among the owners of a revision, where one rollout more may be, with whether they are those that pin it.
func foldHolders(cm *corev1.ConfigMap, by pinners) {
	own := map[types.UID]bool{}
	cm.OwnerReferences = slices.DeleteFunc(cm.OwnerReferences, func(o metav1.OwnerReference) bool {
		holder := o.Kind == "ReplicaSet" || o.Kind == "ControllerRevision"
		if holder {
			own[o.UID] = true
		}
		return holder
	})
	cm.OwnerReferences = append(cm.OwnerReferences, metav1.OwnerReference{Kind: "holders", Name: strconv.FormatBool(maps.Equal(own, by.holders))})
}

// describe describes a ConfigMap that is confrev's, or that it owns something of.
func describe(cm *corev1.ConfigMap) string {
	if cm.Name == revision.AnchorName || cm.Name == "barrier" || cm.Annotations[keys.SourceName] == "barrier" || cm.Name == "kube-root-ca.crt" {
		return ""
	}
	var owners []string
	for _, o := range cm.OwnerReferences {
		owners = append(owners, ownerName(o))
	}
	slices.Sort(owners)
	what := "source " + cm.Name
	if number := cm.Annotations[keys.Number]; number != "" {
		what = fmt.Sprintf("revision %s@%s", cm.Annotations[keys.SourceName], number)
		if strings.Contains(cm.Annotations[keys.Propagation], `"stops":1`) {
			what += ", stopped"
		}
	}
	return fmt.Sprintf("%s: %q, owners %q, finalizers %q", what, cm.Data[color], owners, cm.Finalizers)
}

// ownerName returns the name of an owner. That of a holder follows from its template.
func ownerName(o metav1.OwnerReference) string { return strings.ToLower(o.Kind) + "/" + o.Name }
