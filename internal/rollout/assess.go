package rollout

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/trigger"
	"confrev.io/confrev/internal/waiting"
	"confrev.io/confrev/internal/workload"
)

// Assessment is what observing one workload has shown, and what is decided about it.
type Assessment struct {
	Kind     workload.Kind
	Workload client.Object
	Config   optin.Config
	// Follows is true if the workload is opted in to anything.
	Follows bool
	// Uses are all the sources that the template refers to, tracked or not.
	Uses []podspec.Use
	// Template are the template's pins now.
	Template pin.Set
	// Pins and Hashes are the plans of what is pinned and of what only makes it restart.
	Pins, Hashes plan.Plan
	// Sources has what is known about each source of the plans.
	Sources map[pin.Source]revision.Observation
	// Hidden is true when Secrets are handled, but the user may not see them.
	Hidden bool
	// Rollers are the workloads whose controllers roll the template out: the workload itself, or those that refer to it.
	Rollers []Roller
	// Holders are the holders of the Rollers.
	Holders []client.Object
	// RolledOut are the pins that the workload's holders show, or those of the workloads that have their template in it.
	RolledOut []plan.Holder
	// Warnings are what the user should know about.
	Warnings []notice.Notice
	// Awaited are the sources without which the template cannot be pinned, nor its pods start (rule 7).
	Awaited []string
	// Shown is true if a holder shows what was written last, so that it need not be remembered any longer.
	Shown bool
	// Triggers are the kinds of other objects on which the workload restarts.
	Triggers []trigger.Kind
	// Retry is true if something was refused that may be permitted later.
	Retry bool

	seen *observed
	want intent
}

// Change returns what is about to be written to the template. Its Text is empty if nothing is.
func (l Assessment) Change() Change { return l.want.change(l.seen) }

// Paused reports whether confrev pauses the workload, and continues to do so (rule 7).
func (l Assessment) Paused() bool { return PausedByUs(l.Kind, l.Workload) && !l.want.resume }

// Resumes reports whether confrev's own pause of the workload ends with the change.
func (l Assessment) Resumes() bool { return l.want.resume }

// String returns the workload in the form that kubectl accepts: "deployment/web".
func (l Assessment) String() string { return l.Kind.Resource() + "/" + l.Workload.GetName() }

// Opens returns when the first of the sources that wait may advance by itself. It is zero if none of them does.
func (l Assessment) Opens() time.Time {
	var first time.Time
	for _, d := range slices.Concat(l.Pins.Decisions, l.Hashes.Decisions) {
		if until := d.Wait.Until; !until.IsZero() && (first.IsZero() || until.Before(first)) {
			first = until
		}
	}
	return first
}

// WouldWait returns what a change to a source would wait for, if it were made now.
func (l Assessment) WouldWait(source pin.Source) waiting.Wait {
	gates := slices.Concat(l.Config.Gates, l.seen.gates[source])
	if wait := waiting.ForAct(gates, false); wait != (waiting.Wait{}) {
		return wait
	}
	return waiting.ForTime(gates, false, l.seen.pins.Now)
}

// Rotates reports whether a source that the workload follows has the policy rotate.
func (l Assessment) Rotates(source pin.Source) bool { return l.seen != nil && l.seen.rotating[source] }

// Assess observes a workload and decides. wrote is what was last written to its template, or nil if that is not known. If Assess returns an
// error, the warnings still have what could be observed, but nothing may be written.
func (r *Engine) Assess(ctx context.Context, obj client.Object, wrote *Given) (Assessment, error) {
	look := Assessment{Kind: r.Kind, Workload: obj}
	seen, want, err := r.observeAndDecide(ctx, obj, view{wrote: wrote, reader: r.Client})
	if err == nil {
		// The webhook may have missed a request (rule 21.3).
		want, err = r.endHolds(ctx, obj, nil, seen, want)
	}
	if err == nil {
		want, err = r.takeTurns(ctx, obj, seen, want)
	}
	if err == nil && !want.pins.Urgent() {
		// A rollout now could be followed by another one for what could not be read. First pins and deploys do not wait for that.
		err = seen.unread
	}
	look.Awaited = seen.awaited(want.pins)
	want.resume = obj.GetAnnotations()[keys.Paused] != "" && (!r.Kind.Paused(obj) || len(look.Awaited) == 0)
	look.seen, look.want = seen, want
	look.Shown, look.Triggers, look.Retry, look.Warnings = seen.shown, seen.triggers, seen.retry, seen.warnings
	if err != nil {
		return look, err
	}
	look.Config, look.Follows, look.Template, look.Sources = seen.config, seen.follows(), seen.pins.Pins, seen.sources
	look.Pins, look.Hashes, look.RolledOut = want.pins, want.hashes, seen.pins.Holders
	look.Warnings = slices.Concat(seen.warnings, r.warnings(obj, want.pins, true), r.warnings(obj, want.hashes, false))
	return look, nil
}

// observeAndDecide observes a workload and makes the plans. It reads the types of Secrets only if the template is about to change: until
// then, a Secret that rotates by its type and is already pinned stays pinned.
func (r *Engine) observeAndDecide(ctx context.Context, obj client.Object, v view) (*observed, intent, error) {
	seen, err := r.observe(ctx, obj, v)
	want := seen.decide()
	if err == nil && len(seen.untyped) > 0 && want.changes() {
		v.readTypes = true
		seen, err = r.observe(ctx, obj, v)
		want = seen.decide()
	}
	return seen, want, err
}

// PausedByUs reports whether confrev has paused a workload (rule 7).
func PausedByUs(kind workload.Kind, obj client.Object) bool {
	return obj.GetAnnotations()[keys.Paused] != "" && kind.Paused(obj)
}

// view is how to look at a workload.
type view struct {
	// wrote is what was rolled out last as far as this process knows, whether or not a holder shows it yet; nil if it does not know.
	wrote *Given
	// reader reads the metadata of sources.
	reader client.Reader
	// occasion is why it is looked at. Outside of admission it is Edit; within admission, what needs an event is left to the reconciler.
	occasion plan.Occasion
	// readTypes is true where the type of each Secret counts that is followed, although nothing else may change: in a request.
	readTypes bool
	// replaced is true for a request that changes the template, deploys for one that does not only restart
	// the workload, or creates it.
	replaced, deploys bool
	// old is the object that a request replaces; nil outside of admission, and where there was none.
	old client.Object
	// alone is true where it does not matter how other workloads take a change.
	alone bool
}

// observed is everything that the plans for one workload need, and warnings about what was found.
type observed struct {
	view
	namespace string
	// uids are those of the workload and of those that refer to it: a source is opted in when one of them owns it.
	uids     []types.UID
	config   optin.Config
	template *corev1.PodTemplateSpec
	// rollers are the workloads whose controllers roll the template out, as they were before a request, or as the API server has them where that matters.
	rollers []Roller
	// places are the changes in which the workload has a place, since it was its turn.
	places []Spreading
	// notes are what confrev wrote on the workload and its template before, and workloadHashes the hashes among them that are on the workload.
	notes          notes
	workloadHashes pin.Set
	// before are the pins of the template that a request replaces, and request those that the template has in the request.
	before, request pin.Set
	// earlier are the pins, other than its own, from which the template may have names of revisions: before, and those that it has kept.
	earlier []pin.Set
	// metas has the metadata of sources; nil for one that does not exist.
	metas map[pin.Source]*metav1.PartialObjectMetadata
	// gates are what sources say about when pins may move.
	gates map[pin.Source][]waiting.Gate
	// spreads are what sources say about how their changes spread.
	spreads map[pin.Source]spread.Settings
	// untyped are the Secrets whose type counts and is not known, unless the view asks to read types.
	untyped []pin.Source
	// rotating are the sources that rotate, as far as that is known.
	rotating map[pin.Source]bool
	// unbounded is true when the template has more than admission can resolve, or the list of tracked sources is too long, so that its pins stay.
	unbounded bool
	// holders are those that the plans know of; nil for what no holder shows yet.
	holders []client.Object
	// shown is true when a holder shows what was written last: from now on the holders speak for themselves, also when this one is pruned.
	shown bool
	// sources and contents are what was found of the sources that are pinned or followed, and of everything that is followed by its hash.
	sources  map[pin.Source]revision.Observation
	contents map[pin.Source]contents
	// triggers are the kinds of other objects on which the workload restarts and that were read.
	triggers []trigger.Kind
	// unread is why some of them could not be read. What is noted of these stays.
	unread error
	// retry is true when something was refused that may be permitted later.
	retry    bool
	warnings []notice.Notice

	// pins is the input of the plan of pins, hashes that of the plan of hashes: the same decisions for what is pinned and for what only
	// makes the workload restart.
	pins, hashes plan.Input
	// optInHashes has the hashes that count although only the workload notes them, and not its template: those of its opting in, which
	// is no reason to restart.
	optInHashes pin.Set
}

// contents is the content of a source or another object that is followed by its hash. plain is that hash without a key, to compare it with
// hashes that were written before there was a key (rule 22).
type contents struct {
	plan.Source
	plain string
}

func newObserved(namespace string, v view) *observed {
	return &observed{
		namespace: namespace, view: v, metas: map[pin.Source]*metav1.PartialObjectMetadata{}, rotating: map[pin.Source]bool{},
		gates: map[pin.Source][]waiting.Gate{}, spreads: map[pin.Source]spread.Settings{},
		sources: map[pin.Source]revision.Observation{}, contents: map[pin.Source]contents{}, optInHashes: pin.Set{},
		pins: plan.Input{Sources: map[pin.Source]plan.Source{}}, hashes: plan.Input{Live: true, Sources: map[pin.Source]plan.Source{}},
	}
}

// follows reports whether the workload is opted in to anything that is planned.
func (seen *observed) follows() bool { return len(seen.pins.Uses)+len(seen.hashes.Uses) > 0 }

// restartsOn reports whether the user names an object in confrev.io/restart-on.
func (seen *observed) restartsOn(object pin.Source) bool {
	return slices.ContainsFunc(seen.config.RestartOn, func(t optin.Trigger) bool { return t.Source == object })
}

// observe reads everything that the plans need, in this order: what the workload says, which sources matter to it, its holders, and the
// content of those sources. What follows from that is derived afterwards. With an error, the sources that could not be read are missing
// from the inputs.
func (r *Engine) observe(ctx context.Context, obj client.Object, v view) (*observed, error) {
	seen := newObserved(obj.GetNamespace(), v)
	seen.hashes.Replaced = v.replaced
	config, referring, err := Config(ctx, r.Client, r.Kinds, r.Options, r.Kind, obj)
	if err != nil {
		return seen, err
	}
	if seen.config = config; r.Kind.Fixed {
		// Nothing restarts its pods.
		seen.config.RestartOn = nil
		if !config.Mode.Pins {
			return seen, nil
		}
	}
	for _, in := range []*plan.Input{&seen.pins, &seen.hashes} {
		in.Occasion, in.Deploys, in.Gates, in.Now = v.occasion, v.deploys, config.Gates, r.Now()
	}
	seen.rollers = r.rollersOf(cmp.Or(v.old, obj), referring)
	for _, o := range append(slices.Clone(referring), obj) {
		seen.uids = append(seen.uids, o.GetUID())
	}
	seen.warnings = append(seen.warnings, config.Problems...)
	if seen.template, err = r.Kind.Template(obj); err != nil {
		if config.Track.Enabled() {
			seen.warnings = append(seen.warnings, notice.Warning(notice.NoPodTemplate, pin.Source{}, "%v", err))
		}
		return seen, nil
	}
	if equality.Semantic.DeepEqual(seen.template, &corev1.PodTemplateSpec{}) {
		// The object has no pod template to write to.
		return seen, nil
	}
	r.readNotes(obj, seen)
	if !config.Track.Enabled() {
		// A source may still opt itself in with an ownerReference, but that does not justify a request to the API server.
		seen.reader = r.Client
	}
	if err := r.selectUses(ctx, obj, seen); err != nil || !seen.follows() {
		return seen, err
	}
	if !config.Track.Enabled() {
		seen.reader = v.reader
		clear(seen.metas)
	}
	err = errors.Join(r.readHolders(ctx, obj, referring, seen), r.readSources(ctx, seen))
	seen.unread = r.readTriggers(ctx, seen)
	seen.derive()
	for _, in := range []*plan.Input{&seen.pins, &seen.hashes} {
		for object, source := range in.Sources {
			source.Gates = seen.gates[object]
			in.Sources[object] = source
		}
	}
	return seen, err
}

// Roller is a workload whose controller rolls out a template: its own, or that of the workload that it refers to.
type Roller struct {
	Kind   workload.Kind
	Object client.Object
}

// Describe completes a look for the plugin, with all sources that the template refers to and with the workloads that roll it out.
func (r *Engine) Describe(ctx context.Context, look *Assessment) (err error) {
	// The warnings already say that the template is not one.
	if look.seen.template != nil {
		if look.Uses, err = r.Kind.Uses(look.Workload); err != nil {
			return err
		}
	}
	return r.findHolders(ctx, look)
}

func (r *Engine) findHolders(ctx context.Context, look *Assessment) (err error) {
	var referring []client.Object
	if look.Rollers, referring, err = r.rollers(ctx, look.Workload); err != nil {
		return err
	}
	look.Holders, err = r.holders(ctx, look.Workload, referring)
	return err
}

// rollers returns the workloads whose controllers roll out the template of one: those that refer to it, or else itself.
func (r *Engine) rollers(ctx context.Context, obj client.Object) (rollers []Roller, referring []client.Object, err error) {
	referring, err = index.Referring(ctx, r.Client, r.Kinds, r.Kind, obj)
	return r.rollersOf(obj, referring), referring, err
}

func (r *Engine) rollersOf(obj client.Object, referring []client.Object) (rollers []Roller) {
	for _, other := range referring {
		i := slices.IndexFunc(r.Kinds.All(), func(k workload.Kind) bool { return k.GVK == workload.GVKOf(other) })
		rollers = append(rollers, Roller{r.Kinds.All()[i], other})
	}
	if len(referring) == 0 {
		rollers = []Roller{{r.Kind, obj}}
	}
	return rollers
}
