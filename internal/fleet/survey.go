package fleet

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
)

// survey looks at all workloads. The caller holds c.surveying.
func (f *Fleet) survey(ctx context.Context, c *change, asked rollout.Spreading) (*Survey, error) {
	began := f.now()
	s := &Survey{Spreading: asked, Workloads: map[string]Workload{}, at: began, version: asked.Meta.ResourceVersion}
	standings, err := f.stand(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := s.readRecord(ctx, f.client); err != nil {
		return nil, err
	}
	behind, err := f.behind(ctx, s)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin(s)
	if s.Record.IsBehind(c.recorded) {
		s.Record = c.recorded
	}
	var members []spread.Member
	for _, name := range slices.Sorted(maps.Keys(standings)) {
		members = append(members, c.member(s, name, standings[name], began))
	}
	c.fresh, c.void = false, !f.remembers()
	s.Spread = spread.Look(members, asked.Settings, s.open(), s.Record.Passed)
	s.Continue(s.Record, s.letPass())
	s.Behind = behind && !s.Record.Staged
	s.Stopped = s.isStoppedByPerson() || s.Stops() > 0
	c.latest, c.cost = s, f.now().Sub(began)
	return s, nil
}

// RememberFrom lets the Fleet remember nothing of members before elected is closed: this process looks at them only when it is asked until then, which may
// be weeks apart. It must be called before Add.
func (f *Fleet) RememberFrom(elected <-chan struct{}) { f.elected = elected }

// remembers reports whether this process looks at the members again and again, because it leads.
func (f *Fleet) remembers() bool {
	if f.elected == nil {
		return true
	}
	select {
	case <-f.elected:
		return true
	default:
		return false
	}
}

// open returns how many waves have passed regardless of their members: those that a record of an earlier version counts.
func (s *Survey) open() int {
	if s.Record.Passed == (spread.Place{}) {
		return s.Record.Wave
	}
	return 0
}

// letPass returns the number of the last wave that a person let pass; 0 if there is none.
func (s *Survey) letPass() int {
	if of, wave, err := spread.ParsePassed(s.Meta.Annotations[keys.Passed]); err == nil && of == s.Current.String() {
		return wave
	}
	return 0
}

// stand finds out how each workload stands to the change, and what the present content is.
func (f *Fleet) stand(ctx context.Context, s *Survey) (map[string]rollout.Standing, error) {
	f.mu.Lock()
	engines := slices.Clone(f.engines)
	f.mu.Unlock()
	source := s.Source.Source()
	standings := map[string]rollout.Standing{}
	for _, engine := range engines {
		users, err := f.users(ctx, engine, s.Source)
		if err != nil {
			return nil, err
		}
		for _, obj := range users {
			standing, is, err := engine.Stand(ctx, obj, source, metadata.Shown(engine.Client, s.Meta))
			if err != nil && ctx.Err() != nil {
				return nil, err
			}
			if err != nil {
				// One that cannot be looked at must not keep the others from being conducted. Its wave waits for it.
				log.FromContext(ctx).Error(err, "cannot tell how far a workload is with a change", "workload", engine.Kind.Resource()+"/"+obj.GetName())
				standing, is = rollout.Standing{Decision: plan.Decision{Verdict: plan.Unknown}}, true
				standing.Advance, _ = spread.ParseAdvance(obj.GetAnnotations()[keys.Advanced])
			}
			if s.Current = current(s.Current, standing); !is {
				continue
			}
			name := engine.Kind.Resource() + "/" + obj.GetName()
			standings[name] = standing
			s.Workloads[name] = Workload{engine, client.ObjectKeyFromObject(obj), obj.GetUID(), obj.GetCreationTimestamp().Time, standing.Code, standing}
		}
	}
	return standings, nil
}

// current returns the revision of the present content, of two that workloads name: all name the same, unless several have the content.
func current(known pin.Pin, s rollout.Standing) pin.Pin {
	found := pin.Pin{Revision: s.Source.Name, Number: s.Source.FollowingNumber()}
	if found.Revision == "" || known.Revision != "" && known.Revision <= found.Revision {
		return known
	}
	return found
}

// users returns the workloads of a kind to which a source may matter and that have templates of their own.
func (f *Fleet) users(ctx context.Context, engine *rollout.Engine, source revision.Ref) ([]client.Object, error) {
	var all []client.Object
	for _, value := range []string{source.Text(), index.AnyOf(source.Kind)} {
		found, err := index.List(ctx, f.client, engine.Kind.NewList(), source.Namespace, index.BySource, value)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return slices.DeleteFunc(all, func(obj client.Object) bool {
		_, _, refers := engine.Kind.WorkloadRef(obj)
		return refers || obj.GetDeletionTimestamp() != nil
	}), nil
}

// readRecord reads what the current revision notes, if there is one.
func (s *Survey) readRecord(ctx context.Context, reader client.Reader) error {
	if s.Current.Revision == "" {
		return nil
	}
	meta := revision.Metadata(revision.Ref{Kind: s.Source.Kind, Namespace: s.Source.Namespace, Name: s.Current.Revision})
	if err := reader.Get(ctx, client.ObjectKeyFromObject(meta), meta); err != nil {
		return client.IgnoreNotFound(err)
	}
	s.Revision = meta.UID
	// It may have been raised since the workloads were looked at, and its record with it.
	s.Current.Number = max(s.Current.Number, revision.Labelled(meta).Number)
	noted, ok := record(meta, s.Current)
	if s.Record = noted; !ok {
		// Nothing has been decided about this change.
		s.Record = spread.Record{Revision: string(meta.UID), Number: s.Current.Number}
	}
	return nil
}

// record returns what the current revision notes of the change, if that is about this object and this content.
func record(meta *metav1.PartialObjectMetadata, current pin.Pin) (spread.Record, bool) {
	r, ok := spread.ParseRecord(meta.Annotations[keys.Propagation])
	if !ok || r.Revision != string(meta.UID) || r.Number != current.Number {
		return spread.Record{}, false
	}
	return r, true
}

// since returns the number with which the content became current.
func (s *Survey) since() int64 {
	if s.Record.Number == s.Current.Number {
		return s.Record.First()
	}
	return s.Current.Number
}
