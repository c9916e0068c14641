package rollout

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/internal/workload"
)

// intent is what to do with a workload: the plans of its pins and of its hashes, and what follows from them.
type intent struct {
	pins, hashes plan.Plan
	// release is true if pins of the template must be removed although nothing else changes.
	release bool
	// resume is true if confrev's own pause must end (rule 7).
	resume bool
	// inject are the references of the template that are to name something else.
	inject []podspec.Replacement
	// restart is true when pods are to be replaced although the template stays: for what rotates, where that is asked for.
	restart bool
}

// changes reports whether the template must be written.
func (i intent) changes() bool {
	return i.pins.Changed() || i.hashes.Changed() || i.release || len(i.inject) > 0
}

// text identifies everything that the template should contain.
func (i intent) text() string {
	text := i.pins.Pins.String() + " " + i.hashes.Pins.String()
	if i.onlyInjects() {
		text += " injected"
	}
	return text
}

// onlyInjects reports whether only the names of references change.
func (i intent) onlyInjects() bool {
	return len(i.inject) > 0 && !i.pins.Changed() && !i.hashes.Changed() && !i.release
}

func (seen *observed) decide() intent {
	var want intent
	want.pins, want.hashes = plan.Both(seen.pins, seen.hashes)
	if seen.template == nil {
		return want
	}
	want.release = seen.config.Mode.Attaches && seen.config.Track.Enabled() && len(seen.pins.Pins) > 0 || seen.pins.PinsAbsence()
	if seen.unbounded {
		want.pins.Pins, want.pins.Held = seen.pins.Pins, seen.pins.Held
		return want
	}
	want.injectAgain(seen)
	return want
}

// injectAgain finds the references to change again, after it turned out that some pin or hash does not change.
func (i *intent) injectAgain(seen *observed) {
	i.inject = nil
	if !seen.unbounded && (i.release || seen.follows()) {
		i.inject = seen.injections(i.pins.Pins, i.pins.Changed() || i.hashes.Changed() || i.release)
	}
}

// Change describes what is about to be written to a workload's template, as far as its time depends on that.
type Change struct {
	// Text stands for all that the template should say; empty when nothing is to be written.
	Text string
	// OnlyInjects is true when nothing but the names of references changes.
	OnlyInjects bool
	// Urgent is true for what does not wait.
	Urgent bool
	// NeedsPolicies is true for pins that only admission resolves.
	NeedsPolicies bool
	// Advances are the sources whose changes are rolled out. First pins are none.
	Advances []pin.Source
}

func (i intent) change(seen *observed) Change {
	if !i.changes() {
		return Change{}
	}
	return Change{
		Text: i.text(), OnlyInjects: i.onlyInjects(), Urgent: i.pins.Urgent(), NeedsPolicies: seen.needsPolicies(i), Advances: i.advances(),
	}
}

func (i intent) advances() []pin.Source {
	var sources []pin.Source
	for _, d := range slices.Concat(i.pins.Decisions, i.hashes.Decisions) {
		if d.From != (pin.Pin{}) && d.To != d.From {
			sources = append(sources, d.Source)
		}
	}
	return sources
}

// needsPolicies reports whether an intent writes pins that only admission resolves.
func (seen *observed) needsPolicies(want intent) bool {
	return seen.config.Injection == optin.Admission && len(want.pins.Pins) > 0 && (want.pins.Changed() || len(want.inject) > 0)
}

// restartInstead leaves the template as it is where nothing but what rotates has changed and the workload asks for its pods to be
// restarted: the new hashes are noted, and a time tells Argo Rollouts which pods are too old. It evicts them one after the other, so
// there must be two.
func (i *intent) restartInstead(kind workload.Kind, obj client.Object, seen *observed) {
	if !seen.config.RestartAt || !kind.CanRestart(obj) || !i.hashes.Changed() || i.pins.Changed() || i.release || len(i.inject) > 0 {
		return
	}
	for _, d := range i.hashes.Decisions {
		if d.To != d.From && (!seen.rotating[d.Source] || d.From == pin.Pin{}) {
			return
		}
	}
	for at := range i.hashes.Decisions {
		if d := &i.hashes.Decisions[at]; d.To != d.From {
			d.Noted = d.To
			i.hashes.Repin(d, d.From)
		}
	}
	i.restart = true
}

// awaited returns the sources without which a template cannot be pinned, and its pods cannot start (rule 7). With a CSI volume, the first
// pod's mount may create a Secret, so waiting for the Secret without a pod would never end.
func (seen *observed) awaited(p plan.Plan) []string {
	isCSI := func(v corev1.Volume) bool { return v.CSI != nil }
	var waiting []string
	for _, d := range p.Decisions {
		missing := slices.Contains([]plan.Verdict{plan.SourceMissing, plan.KeyMissing}, d.Verdict)
		if d.From == (pin.Pin{}) && missing && (d.Source.Kind != pin.Secret || !slices.ContainsFunc(seen.template.Spec.Volumes, isCSI)) {
			waiting = append(waiting, d.Source.String())
		}
	}
	return waiting
}

// injections returns the references of the template whose name must change: with injection into the template, to the revision that their
// source is pinned to, otherwise to the source. changing reports whether other pins are about to be written to the template.
func (seen *observed) injections(pins pin.Set, changing bool) []podspec.Replacement {
	if !changing {
		// Stale pins stay until the template changes anyway, and so do their references (rule 21.6).
		if found := seen.resolved(seen.pins.Pins); len(found) == 0 {
			return nil
		}
	}
	return seen.resolved(pins)
}

func (seen *observed) resolved(pins pin.Set) []podspec.Replacement {
	into := seen.config.Mode.Pins && seen.config.Injection == optin.Template
	sources := pin.Inverse(slices.Concat([]pin.Set{seen.pins.Pins}, seen.earlier, []pin.Set{seen.request})...)
	return podspec.Replacements(&seen.template.Spec, func(named pin.Source) (string, bool) {
		source, injected := sources[named]
		if !injected {
			source = named
		}
		if revision, pinned := pins.Resolve(source); into && pinned {
			return revision, true
		}
		return source.Name, true
	})
}

// warnings returns what the user should know about a plan, except for what concerns writes. frozen reports whether pods have revisions to
// continue with.
func (r *Engine) warnings(obj client.Object, p plan.Plan, frozen bool) []notice.Notice {
	var all []notice.Notice
	for _, d := range p.Decisions {
		switch d.Verdict {
		case plan.SourceMissing:
			all = append(all, notice.Warning(notice.SourceMissing, d.Source, "%s %s", d.Source, d.Missing(frozen)))
		case plan.KeyMissing:
			missing := notice.Warning(notice.KeyMissing, d.Source, "%s %s", d.Source, d.Missing(frozen))
			missing.Keys = strings.Join(d.Keys, ",")
			all = append(all, missing)
		case plan.Waiting:
			if d.Wait.Reason == "" {
				// The request changes nothing else, so the controller is about to decide.
				continue
			}
			all = append(all, r.waits(obj, d))
		case plan.Pinned:
			if d.Wait.Reason == waiting.Stopped && d.To == d.Current {
				all = append(all, notice.Warning(notice.ChangeStopped, d.Source, "the change to %s was stopped (%s), but the workload gets it: it had no revision yet, "+
					"and no other is known to work", d.Source, d.Wait.By))
			}
		}
	}
	return all
}

// waits returns what to say of a source that waits. What is stopped has a reason of its own, since the events of one reason are taken for
// repetitions.
func (r *Engine) waits(obj client.Object, d plan.Decision) notice.Notice {
	if d.Wait.Reason == waiting.Stopped {
		return notice.Warning(notice.ChangeStopped, d.Source, "%s changed, and the change was stopped: it waits %s; to continue: "+
			"kubectl confrev resume %s -n %s", d.Source, d.Wait, d.Source, obj.GetNamespace())
	}
	what := "changed, and waits"
	if d.To == (pin.Pin{}) {
		what = "is not pinned yet, and waits"
	}
	return notice.Notice{Reason: notice.WaitingToAdvance, Source: d.Source, Normal: true, Text: fmt.Sprintf(
		"%s %s %s; to roll it out now: kubectl confrev advance %s/%s %s -n %s", d.Source, what, d.Wait, r.Kind.Resource(), obj.GetName(), d.Source, obj.GetNamespace())}
}
