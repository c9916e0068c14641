package change

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/view"
)

const trackLong = `Roll a workload out when its ConfigMaps and Secrets change: sets its annotation confrev.io/track.

Without SOURCE: all that its pod template refers to, now and later. With SOURCE: these, in addition to those that it already tracks.
The controller pins what is new at once, and a first pin is a rollout. Secrets count only where the controller handles them.`

const trackExample = `# Only one ConfigMap, and then also a Secret
kubectl confrev track deployment/web configmap/app
kubectl confrev track deployment/web secret/db

# All ConfigMaps and Secrets that the pod template refers to
kubectl confrev track deployment/web`

const untrackLong = `Stop rolling a workload out when its ConfigMaps and Secrets change: edits its annotation confrev.io/track.

Without SOURCE: sets it to "none", whatever else opts the workload in. With SOURCE: takes these from the list. "all" has no
exceptions, so nothing can be taken from it. Nothing restarts, and pins stay: pods continue to use the revisions that they have.`

const untrackExample = `# One of several
kubectl confrev track deployment/web configmap/app secret/db
kubectl confrev untrack deployment/web secret/db

# Leave the workload alone
kubectl confrev untrack deployment/web`

// NewTrack returns the verb that opts workloads in.
func NewTrack(p *session.Session) *cobra.Command {
	return newTracking(p, "track WORKLOAD [SOURCE...]", "Roll a workload out when its sources change", trackLong, trackExample, "tracks", addTracked)
}

// NewUntrack returns the verb that opts workloads out.
func NewUntrack(p *session.Session) *cobra.Command {
	return newTracking(p, "untrack WORKLOAD [SOURCE...]", "Stop rolling a workload out when sources change", untrackLong, untrackExample, "untracked", dropTracked)
}

// edit returns the annotation that replaces another. track is what the workload follows, whatever opts it in.
type edit func(t session.Target, before string, track optin.Track, sources []pin.Source) (after string, err error)

// tracking edits the annotation confrev.io/track of a workload.
type tracking struct {
	onWorkload
	edit edit
}

func newTracking(p *session.Session, use, short, long, example, done string, edit edit) *cobra.Command {
	base, cmd := newOnWorkload(p, use, short, long, example, done)
	return session.Command(cmd, &tracking{base, edit})
}

func (t *tracking) Run(ctx context.Context) error {
	return t.withTarget(ctx, t.track)
}

func (t *tracking) track(ctx context.Context, c *session.Connection, found session.Target) error {
	asked, err := found.Config(ctx, c)
	if err != nil {
		return err
	}
	before := found.Object.GetAnnotations()[keys.Track]
	after, err := t.edit(found, before, asked.Track, t.sources)
	switch {
	case err != nil:
		return err
	case after == before && before == "":
		return t.unchanged(found.Object, "tracked already, because of "+optedInBy(found))
	case after == before:
		return t.unchanged(found.Object, fmt.Sprintf("%s: %s", keys.Track, after))
	}
	notes := append([]string{fmt.Sprintf("%s: %s -> %s", keys.Track, orNothing(before), after)}, consequences(ctx, c, found, after)...)
	if err := t.annotate(ctx, c, found.Object, map[string]string{keys.Track: after}); err != nil {
		return err
	}
	return t.printed(found.Object, append(notes, stillOwned(ctx, c, found, after, t.sources)...)...)
}

// annotate sets annotations of an object, if it is still as it was read: a list that another user edits meanwhile is not to
// be lost.
func (w *writing) annotate(ctx context.Context, c *session.Connection, obj client.Object, annotations map[string]string) error {
	all := map[string]any{}
	for key, value := range annotations {
		all[key] = value
	}
	return w.annotateAny(ctx, c, obj, all)
}

// annotateAny does the same, and removes the annotations that are nil.
func (w *writing) annotateAny(ctx context.Context, c *session.Connection, obj client.Object, annotations map[string]any) error {
	if w.dryRun == cmdutil.DryRunClient {
		after := labels.Merge(obj.GetAnnotations(), nil)
		for key, value := range annotations {
			if text, set := value.(string); set {
				after[key] = text
			} else {
				delete(after, key)
			}
		}
		obj.SetAnnotations(after)
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": obj.GetUID(), "resourceVersion": obj.GetResourceVersion(), "annotations": annotations}})
	if err != nil {
		return err
	}
	return c.Patch(ctx, obj, client.RawPatch(types.MergePatchType, patch), &client.PatchOptions{FieldManager: w.fieldManager, DryRun: w.serverDryRun()})
}

func orNothing(text string) string { return cmp.Or(text, "(nothing)") }

// optedInBy returns what opts a workload in that has no annotation confrev.io/track.
func optedInBy(t session.Target) string {
	switch {
	case t.Object.GetLabels()[keys.Track] == "all":
		return "its label " + keys.Track
	case optin.ModeOf(t.Object.GetAnnotations()).Attaches:
		return "mode " + optin.Attach.Name
	case t.Kind.Config(t.Object, index.Namespace(), optin.Defaults{Compat: t.Installation.Options.Compat}).Track.Enabled():
		return "annotations of another tool"
	}
	return "the label " + keys.Track + " of its namespace"
}

// addTracked returns the annotation with more sources; without any, "all". The annotation takes precedence over all else that opts the
// workload in, so it must not have less than that.
func addTracked(t session.Target, before string, track optin.Track, sources []pin.Source) (string, error) {
	untracked := func(source pin.Source) bool { return !track.Tracks(source) }
	switch {
	case t.Object.GetLabels()[keys.Track] == "none":
		return "", fmt.Errorf("the label %[1]s of %[2]s opts it out, whatever the annotation is, so nothing was done; first: kubectl label %[2]s %[1]s-%[3]s",
			keys.Track, t, t.Namespaced())
	case len(sources) == 0:
		return "all", nil
	case !slices.ContainsFunc(sources, untracked):
		return before, nil
	case before == "" && track.Enabled():
		return "", fmt.Errorf("%s is opted in by annotations of another tool, which %s would replace, so nothing was done; "+
			"add %s to those, or: kubectl confrev track %s%s", t, keys.Track, listText(sources), t, t.Namespaced())
	}
	listed, err := listedIn(before)
	if err != nil {
		return "", err
	}
	after := listText(append(listed, sources...))
	if _, err := optin.ParseTrack(after); err != nil {
		return "", fmt.Errorf("annotation %s would be invalid: %w", keys.Track, err)
	}
	return after, nil
}

// dropTracked returns the annotation with fewer sources; without any, "none".
func dropTracked(t session.Target, before string, _ optin.Track, sources []pin.Source) (string, error) {
	if len(sources) == 0 {
		return "none", nil
	}
	if strings.TrimSpace(before) == "all" {
		return "", fmt.Errorf("%s tracks all, which has no exceptions: either list the others, %s; "+
			"or keep %s from being pinned anywhere: kubectl annotate %s %s=live%s", t, others(t, sources), sources[0], sources[0], keys.Policy, t.Namespaced())
	}
	listed, err := listedIn(before)
	if err != nil {
		return "", err
	}
	for _, source := range sources {
		if !slices.Contains(listed, source) {
			return "", fmt.Errorf("annotation %s of %s does not list %s: it is %s", keys.Track, t, source, orNothing(before))
		}
	}
	listed = slices.DeleteFunc(listed, func(s pin.Source) bool { return slices.Contains(sources, s) })
	if len(listed) == 0 {
		return "none", nil
	}
	return listText(listed), nil
}

// others returns the command that lists all the sources of a template but some.
func others(t session.Target, but []pin.Source) string {
	uses, _ := t.Kind.Uses(t.Object)
	var rest []pin.Source
	for _, use := range uses {
		if !slices.Contains(but, use.Source) {
			rest = append(rest, use.Source)
		}
	}
	return fmt.Sprintf("kubectl annotate %s %s=%s --overwrite%s", t, keys.Track, cmp.Or(listText(rest), "none"), t.Namespaced())
}

func listedIn(text string) ([]pin.Source, error) {
	if text = strings.TrimSpace(text); text == "" || text == "none" || text == "all" {
		return nil, nil
	}
	if _, err := optin.ParseTrack(text); err != nil {
		return nil, fmt.Errorf("annotation %s is malformed, correct it first: %w", keys.Track, err)
	}
	var texts []string
	for item := range strings.SplitSeq(text, ",") {
		texts = append(texts, strings.TrimSpace(item))
	}
	return session.ParseSources(texts)
}

func listText(sources []pin.Source) string {
	var texts []string
	for _, source := range slices.Compact(slices.SortedFunc(slices.Values(sources), pin.Source.Compare)) {
		texts = append(texts, source.String())
	}
	return strings.Join(texts, ",")
}

// consequences returns what an annotation leads to.
func consequences(ctx context.Context, c client.Reader, t session.Target, text string) []string {
	pins, _ := t.Kind.Pins(t.Object)
	if text == "none" {
		if len(pins) == 0 {
			return nil
		}
		return []string{fmt.Sprintf("pins stay, and pods continue to use them: %s", pins)}
	}
	if elsewhere := t.Installation.Elsewhere(t.Object.GetNamespace()); elsewhere != "" {
		return []string{elsewhere}
	}
	track, _ := optin.ParseTrack(text)
	uses, _ := t.Kind.Uses(t.Object)
	selection := track.Select(uses, true, func(pin.Source) optin.Traits { return optin.Traits{} })
	annotations := t.Object.GetAnnotations()
	copies := annotations[keys.Mode] == "" || optin.ModeOf(annotations).Pins
	var notes, fresh []string
	for _, use := range selection.Uses {
		if _, pinned := pins[use.Source]; pinned || !copies {
			continue
		}
		if why := whyNotCopied(ctx, c, t, use.Source); why != "" {
			notes = append(notes, fmt.Sprintf("%s is not pinned: %s", use.Source, why))
			continue
		}
		fresh = append(fresh, use.String())
	}
	if len(fresh) > 0 {
		notes = append([]string{fmt.Sprintf("a controller pins %s at once, which is a rollout", strings.Join(fresh, ", "))}, notes...)
	}
	for _, source := range selection.Unused {
		notes = append(notes, fmt.Sprintf("the pod template does not refer to %s, so tracking it has no effect", source))
	}
	return notes
}

// whyNotCopied returns why a source is never copied, as far as its metadata shows; empty if it is, or if the user may not see it.
func whyNotCopied(ctx context.Context, c client.Reader, t session.Target, source pin.Source) string {
	var traits optin.Traits
	meta := revision.NewMetadata(source.Kind)
	if err := c.Get(ctx, client.ObjectKey{Namespace: t.Object.GetNamespace(), Name: source.Name}, meta); err == nil {
		traits, _ = t.Installation.Options.Compat.Describe(source, meta)
		if t.Installation.Options.Rotating.Classify(source, meta) == optin.Rotated {
			traits.Policy = optin.PolicyRotate
		}
	}
	return view.WhyNeverCopied(source, traits, t.Installation.Options.Secrets)
}

// stillOwned returns which of the sources continue to be tracked because the workload owns them.
func stillOwned(ctx context.Context, c *session.Connection, t session.Target, after string, sources []pin.Source) []string {
	listed, err := listedIn(after)
	if err != nil || after == "none" || after == "all" {
		return nil
	}
	if asked, err := t.Config(ctx, c); err != nil || !asked.Track.Owners() {
		return nil
	}
	var notes []string
	for _, source := range sources {
		if slices.Contains(listed, source) {
			continue
		}
		meta := revision.NewMetadata(source.Kind)
		// What cannot be read is not worth failing for: the annotation is written.
		err := c.Get(ctx, client.ObjectKey{Namespace: t.Object.GetNamespace(), Name: source.Name}, meta)
		if about, _ := (optin.Compat{}).Describe(source, meta, t.Object.GetUID()); err == nil && about.Owned {
			notes = append(notes, fmt.Sprintf("%s is still tracked, since %s owns it; to end that: kubectl confrev set owner %s %s --remove%s", source, t, source, t, t.Namespaced()))
		}
	}
	return notes
}
