package change

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/spread"
)

const stopLong = `Let the present content of a source go no further: it sets the annotation confrev.io/stop of the source.

Workloads that have it already keep it, and are rolled back by "kubectl confrev undo". The others stay on what they have, whatever is
deployed. A change to other content ends the stop, and so does "kubectl confrev resume SOURCE".`

const stopExample = `# Something is wrong: no one else shall get it
kubectl confrev stop configmap/app

# It was a false alarm
kubectl confrev resume configmap/app`

// steering edits the annotations of a source by which a change to it is steered.
type steering struct {
	*writing
	source pin.Source
	edit   func(*fleet.Survey, map[string]string) (annotations map[string]any, note string, err error)
}

// NewStop returns the verb that stops a change.
func NewStop(p *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "stop SOURCE", Short: "Let a change to a source go no further", Long: stopLong, Example: session.Examples(stopExample),
		DisableFlagsInUseLine: true, ValidArgsFunction: p.CompleteSource,
	}
	return session.Command(cmd, &steering{writing: newWriting(p, cmd, "stopped"), edit: stop})
}

func stop(s *fleet.Survey, before map[string]string) (map[string]any, string, error) {
	switch name := s.Current.Revision; name {
	case "":
		return nil, "", fmt.Errorf("no workload is pinned to %s, so there is nothing to stop", s.Source.Text())
	case before[keys.Stop]:
		return nil, s.Describe() + " is stopped already", nil
	default:
		note := s.Describe() + " goes no further"
		if s.Members() > 0 {
			have := s.Count(spread.Rolling, spread.Parked, spread.Unwell, spread.Idle, spread.Baking, spread.Vouched)
			note += fmt.Sprintf("; %d of %d workloads have it, and keep it", have, s.Members())
		}
		return map[string]any{keys.Stop: name}, note, nil
	}
}

func resume(s *fleet.Survey, before map[string]string) (map[string]any, string, error) {
	annotations := map[string]any{}
	if before[keys.Stop] != "" {
		annotations[keys.Stop] = nil
	}
	if s.Stops() > 0 {
		annotations[keys.Resume] = spread.Resume(s.Current, s.Record.Stops)
	}
	if len(annotations) == 0 {
		return nil, s.Source.Text() + " is not stopped", nil
	}
	return annotations, s.Describe() + " continues; to watch: kubectl confrev status " + arguments(s) + " -w" + staysBack(s), nil
}

// arguments returns those of a command about the source of a change: "configmap/app -n shop".
func arguments(s *fleet.Survey) string {
	return s.Source.Text() + session.Namespaced(s.Source.Namespace)
}

// staysBack returns a sentence about the workloads that do not take a change that continues, because someone other than confrev rolled them back
// from it.
func staysBack(s *fleet.Survey) string {
	const shown = 3
	var back []string
	for _, m := range s.Apart {
		if m.RolledBack && !m.ByStop {
			back = append(back, m.Name)
		}
	}
	if len(back) == 0 {
		return ""
	}
	names := strings.Join(back[:min(len(back), shown)], ", ")
	if more := len(back) - shown; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("; rolled back by someone, and without it until you resume each: %s (kubectl confrev resume %s%s)", names, back[0], session.Namespaced(s.Source.Namespace))
}

// pastWave lets waves pass.
func pastWave(waves int) func(*fleet.Survey, map[string]string) (map[string]any, string, error) {
	return func(s *fleet.Survey, _ map[string]string) (map[string]any, string, error) {
		switch {
		case waves < 1:
			return nil, "", errors.New("want --past-stage, or --past-wave with the number of a wave, from 1 on; kubectl confrev status " + arguments(s) + " shows them")
		case s.Stopped:
			return nil, "", fmt.Errorf("%s is stopped; to continue: kubectl confrev resume %s", s.Describe(), arguments(s))
		case len(s.Waves) == 0:
			return nil, "no workload is to get " + s.Describe() + " any more", nil
		case waves > s.Left+len(s.Waves):
			return nil, "", fmt.Errorf("--past-wave=%d: %s has %d waves", waves, s.Describe(), s.Left+len(s.Waves))
		case waves <= s.Left+s.Open:
			return nil, fmt.Sprintf("wave %d of %s has passed already", waves, s.Describe()), nil
		}
		return map[string]any{keys.Passed: spread.Passed(s.Current, waves)}, fmt.Sprintf("wave %d of %s counts as passed", waves, s.Describe()), nil
	}
}

// pastStage lets a change begin without waiting for another namespace.
func pastStage(s *fleet.Survey, _ map[string]string) (map[string]any, string, error) {
	switch {
	case s.Stopped:
		return nil, "", fmt.Errorf("%s is stopped; to continue: kubectl confrev resume %s", s.Describe(), arguments(s))
	case !s.Behind:
		return nil, s.Describe() + " does not wait for another namespace", nil
	}
	return map[string]any{keys.Passed: spread.Passed(s.Current, 0)}, s.Describe() + " does not wait for namespace " + s.Settings.Follows(), nil
}

func (o *steering) Fill(cmd *cobra.Command, args []string) (err error) {
	name, rest, err := session.SplitArgs(args)
	if err != nil || len(rest) > 0 {
		return fmt.Errorf("want one source, such as configmap/app: kubectl confrev %s; see --help", cmd.Use)
	}
	if o.source, err = session.ParseSource(name); err != nil {
		return err
	}
	return o.complete(cmd)
}

func (o *steering) Run(ctx context.Context) error {
	c, err := o.Connect()
	if err != nil {
		return err
	}
	return untilUnchanged(func() error {
		v, err := o.View(ctx, false)
		if err != nil {
			return err
		}
		survey, err := v.Spread(ctx, c.Namespace, o.source)
		if err != nil {
			return err
		}
		obj := revision.Metadata(revision.Ref{Kind: o.source.Kind, Namespace: c.Namespace, Name: o.source.Name})
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		annotations, note, err := o.edit(survey, obj.Annotations)
		if err != nil {
			return err
		}
		if annotations == nil {
			return o.unchanged(obj, note)
		}
		if err := o.annotateAny(ctx, c, obj, annotations); err != nil {
			return err
		}
		return o.printed(obj, note)
	})
}

// isSource reports whether the first argument of a verb names a source instead of a workload.
func isSource(args []string) bool {
	name, _, err := session.SplitArgs(args)
	if err != nil {
		return false
	}
	_, err = session.ParseSource(name)
	return err == nil
}

// orSource makes a verb that takes a workload take a source instead, and then do something else.
type orSource struct {
	session.Verb
	onSource *steering
	chosen   session.Verb
	// sourceOnly are the flags that only a source takes.
	sourceOnly []string
}

func (o *orSource) Fill(cmd *cobra.Command, args []string) error {
	o.chosen = o.Verb
	if isSource(args) {
		o.chosen = o.onSource
		return o.onSource.Fill(cmd, args)
	}
	if i := slices.IndexFunc(o.sourceOnly, func(flag string) bool { return cmd.Flags().Changed(flag) }); i >= 0 {
		return fmt.Errorf("--%s is for a source, such as configmap/app", o.sourceOnly[i])
	}
	return o.Verb.Fill(cmd, args)
}

func (o *orSource) Run(ctx context.Context) error { return o.chosen.Run(ctx) }
