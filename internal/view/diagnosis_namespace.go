package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/audit"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/snapshot"
	"confrev.io/confrev/internal/workload"
)

// workloads looks at every workload that confrev follows, as the controller does.
func (d *doctor) workloads(ctx context.Context) error {
	users := map[revision.Ref]int{}
	for _, found := range d.Workloads() {
		look, err := d.Assess(ctx, found.Kind, found.Workload)
		if apierrors.IsForbidden(err) {
			d.note("not judged: %v", err)
			continue
		}
		if err != nil {
			return err
		}
		about := client.ObjectKeyFromObject(look.Workload)
		for _, w := range look.Warnings {
			level := SeverityWarning
			if w.Normal {
				level = SeverityInfo
			}
			d.addFinding(level, w.Reason, look.Kind.GVK, about, "see docs/events.md: "+w.Reason, "%s", w.Text)
		}
		d.missing(look)
		d.holds(look)
		d.pause(look)
		for _, decision := range look.Pins.Decisions {
			users[revision.Ref{Kind: decision.Source.Kind, Namespace: look.Workload.GetNamespace(), Name: decision.Source.Name}]++
		}
	}
	return d.shared(ctx, users)
}

// manyUsers is for how many workloads a change is better not made to all of them at once.
const manyUsers = 20

// shared finds sources that many workloads use, and whose changes reach all of them at once.
func (d *doctor) shared(ctx context.Context, users map[revision.Ref]int) error {
	for source, n := range users {
		if n <= manyUsers || d.fleet == nil {
			continue
		}
		asked, spreads, err := d.fleet.Spreading(ctx, source)
		if err != nil {
			return err
		}
		if !spreads && !asked.Settings.NoDefault {
			d.addFinding(SeverityInfo, "SpreadsAtOnce", revision.GVK(source.Kind), client.ObjectKey{Namespace: source.Namespace, Name: source.Name},
				fmt.Sprintf("to let a few have it first: kubectl annotate %s confrev.io/safety=careful -n %s; see docs/guide/safe-changes.md", source.Text(), source.Namespace),
				"a change to it reaches %d workloads at once", n)
		}
	}
	return nil
}

// missing finds revisions that are pinned and not there.
func (d *doctor) missing(look rollout.Assessment) {
	report := func(level Severity, who string, pins pin.Set) {
		for _, source := range pins.Sources() {
			if d.Snapshot.Refused(revision.GVK(source.Kind)) != nil || source.Kind == pin.Secret && !d.Options.Secrets {
				continue
			}
			if _, exists := d.metadataOf(look.Workload.GetNamespace(), pin.Source{Kind: source.Kind, Name: pins[source].Revision}); exists {
				continue
			}
			d.addFinding(level, "RevisionMissing", look.Kind.GVK, client.ObjectKeyFromObject(look.Workload),
				"give "+source.String()+" the content that the revision had, or roll out another revision; see docs/troubleshooting.md",
				"%s is pinned to %s, which does not exist: new pods of it cannot start", who, pins[source])
		}
	}
	report(SeverityError, "its template", look.Template)
	for _, holder := range look.Holders {
		pins, err := pin.Parse(look.Kind.Holder.Facts(holder).Pins)
		if err == nil && pins.String() != look.Template.String() {
			report(SeverityWarning, resourceName(workload.GVKOf(holder).Kind, holder.GetName()), pins)
		}
	}
}

// holds finds workloads that were rolled back. The hold is at most as old as the revision that it is from.
func (d *doctor) holds(look rollout.Assessment) {
	for _, decision := range slices.Concat(look.Pins.Decisions, look.Hashes.Decisions) {
		if decision.Verdict != plan.Held {
			continue
		}
		level, old := SeverityInfo, ""
		if since, known := d.undoneSince(look, decision); known {
			age := d.Now.Sub(since)
			old = fmt.Sprintf(", which is %s old,", duration.HumanDuration(age))
			if age > d.Long {
				level = SeverityWarning
			}
		}
		d.addFinding(level, "Held", look.Kind.GVK, client.ObjectKeyFromObject(look.Workload),
			fmt.Sprintf("correct %s, which ends the hold; or continue with it as it is: kubectl confrev resume %s -n %s", decision.Source, look, look.Workload.GetNamespace()),
			"it was rolled back from the present content of %s%s and stays on %s", decision.Source, cmp.Or(old, ","), decision.From)
	}
}

// undoneSince returns how old the content is that a workload was rolled back from: as old as its revision or, where nothing is copied, as the
// source's managed fields say.
func (d *doctor) undoneSince(look rollout.Assessment, held plan.Decision) (at time.Time, known bool) {
	namespace, kind := look.Workload.GetNamespace(), held.Source.Kind
	if current, exists := d.metadataOf(namespace, pin.Source{Kind: kind, Name: held.Current.Revision}); exists {
		return current.CreationTimestamp.Time, true
	}
	if source, exists := d.metadataOf(namespace, held.Source); exists {
		return audit.Changed(kind, source)
	}
	return time.Time{}, false
}

// pause finds workloads that are paused, and since when, if that is recorded.
func (d *doctor) pause(look rollout.Assessment) {
	p := d.progress(look)
	i := slices.IndexFunc(look.Rollers, isPaused)
	if i < 0 || !look.Follows {
		return
	}
	paused := look.Rollers[i]
	since, known := paused.Kind.PausedSince(paused.Object)
	if look.Workload.GetAnnotations()[keys.Paused] != "" {
		since, known = look.Workload.GetCreationTimestamp().Time, true
	}
	level, lasts := SeverityInfo, ""
	if known {
		age := d.Now.Sub(since)
		lasts = " for " + duration.HumanDuration(age)
		if age > d.Long {
			level = SeverityWarning
		}
	}
	d.addFinding(level, "Paused", look.Kind.GVK, client.ObjectKeyFromObject(look.Workload), "once it may roll out: "+paused.Kind.ToResume(paused.Object), "paused%s: %s", lasts, p.paused)
}

// leakMargin is how much longer than twice its grace time a revision that nothing uses may stay.
const leakMargin = 10 * time.Second

// revisions finds revisions that nothing uses and that should be gone.
func (d *doctor) revisions(ctx context.Context) error {
	for _, kind := range pin.Kinds {
		for _, obj := range d.Snapshot.Sources(kind) {
			age := d.Now.Sub(obj.GetCreationTimestamp().Time)
			// The controller needs a while of its own, and users of kinds that may not be seen are not known.
			if !revision.IsRevision(obj) || age < 2*d.Options.Grace+leakMargin || d.blind() {
				continue
			}
			users, err := d.PinnersOf(ctx, obj.GetNamespace(), pin.Source{Kind: kind, Name: obj.GetName()})
			if err != nil {
				return err
			}
			if len(users) > 0 {
				continue
			}
			if err := d.unused(ctx, kind, obj, age); err != nil {
				return err
			}
		}
	}
	return nil
}

// unused returns what is the matter with an old revision that nothing uses: it is left over, or it only looks like a revision (rule 20).
func (d *doctor) unused(ctx context.Context, kind pin.Kind, obj client.Object, age time.Duration) error {
	source, about := revision.SourceOf(kind, obj), client.ObjectKeyFromObject(obj)
	derived, err := d.Derived(ctx, obj)
	if revision.IsChanged(err) {
		// It has been deleted since the snapshot was taken.
		return nil
	}
	if terminal, ok := errors.AsType[*notice.TerminalError](err); ok && slices.Contains(unreadable, terminal.Reason) {
		d.addFinding(SeverityInfo, terminal.Reason, revision.GVK(kind), about, "", "whether it is left over cannot be told: %s", terminal.Text)
		return nil
	}
	if err != nil {
		return err
	}
	if !derived {
		d.addFinding(SeverityWarning, "NotARevision", revision.GVK(kind), about,
			"if nothing needs it: kubectl delete "+string(kind)+" "+obj.GetName()+" -n "+obj.GetNamespace(),
			"it looks like a revision of %s, but its data does not bear that out: confrev does not delete it", source)
		return nil
	}
	d.addFinding(SeverityWarning, "Leak", revision.GVK(kind), about,
		"the controller deletes it when it runs and nothing else owns it: kubectl get "+string(kind)+" "+obj.GetName()+" -n "+obj.GetNamespace()+" -o yaml",
		"no template and no holder is pinned to this revision of %s, for %s", source, duration.HumanDuration(age))
	return nil
}

// blind reports whether some kind of workloads or holders may not be seen.
func (d *doctor) blind() bool {
	return slices.ContainsFunc(d.Kinds, func(k workload.Kind) bool {
		return d.Snapshot.Refused(k.GVK) != nil || d.Snapshot.Refused(k.Holder.GVK) != nil
	})
}

// pods finds pods whose pins were not applied. Their references are in their specs, so this takes a LIST of whole pods.
func (d *doctor) pods(ctx context.Context) error {
	if !d.seesPods() {
		return nil
	}
	list := &corev1.PodList{}
	running := fields.ParseSelectorOrDie("status.phase!=Succeeded,status.phase!=Failed")
	if err := d.live.List(ctx, list, client.InNamespace(d.namespace), client.MatchingFieldsSelector{Selector: running}); err != nil {
		return err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		pins, err := pin.Parse(pod.Annotations[keys.Pins])
		if err != nil {
			continue
		}
		if left := podspec.Replacements(&pod.Spec, pins.Resolve); len(left) > 0 {
			d.addFinding(SeverityError, "NotResolved", snapshot.Pod, client.ObjectKeyFromObject(pod),
				"delete the pod once the admission policies are in place: its successor is right",
				"its pins were not applied to %d references: it reads the sources themselves", len(left))
		}
	}
	return nil
}
