// Package fleet looks at all the workloads that use a source, and finds out how far a change to it has spread (rules 36 to 39). It asks the
// same engines that plan for each workload. Any process comes to the same answer from the objects alone, except for how long a workload of a
// kind that does not record it has been healthy: after a restart, that counts from the beginning.
package fleet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
)

// Fleet has the workloads of all kinds. It is safe for concurrent use.
type Fleet struct {
	client client.Reader
	now    func() time.Time

	// pods reads the pods of members (rule 41); nil if confrev may not.
	pods client.Reader

	// analyses reads AnalysisRuns (rule 43); nil if confrev may not.
	analyses client.Reader

	// defaults has the stages and what counts where nothing is said, and elsewhere reads revisions of all namespaces (rule 44).
	defaults  optin.Defaults
	elsewhere client.Reader

	// elected is closed once this process leads; nil if it does from the beginning.
	elected <-chan struct{}

	// brief is true for a process that looks once, and so cannot know for how long anything has been as it is.
	brief bool

	mu      sync.Mutex
	engines []*rollout.Engine
	// changes has, by source, what is remembered of its latest change.
	changes *lru.Cache
}

// remembered is of how many changes something is remembered. A change that is forgotten spreads later, never sooner.
const remembered = 1000

// New returns a Fleet without workloads. client has the indexes of package index.
func New(client client.Reader, now func() time.Time) *Fleet {
	return &Fleet{client: client, now: now, changes: lru.New(remembered)}
}

// OfSnapshot returns a Fleet for a process that looks at a snapshot.
func OfSnapshot(client client.Reader, now func() time.Time) *Fleet {
	f := New(client, now)
	f.brief = true
	return f
}

// Configure sets which namespaces come one after the other, and what counts where nothing is said. elsewhere reads revisions of all
// namespaces. It must be called before Add.
func (f *Fleet) Configure(defaults optin.Defaults, elsewhere client.Reader) {
	f.defaults, f.elsewhere = defaults, elsewhere
}

// Followers returns the same source in the namespaces that may come after its own.
func (f *Fleet) Followers(source revision.Ref) []revision.Ref {
	var all []revision.Ref
	for _, namespace := range f.defaults.Stages.Followers(source.Namespace) {
		all = append(all, revision.Ref{Kind: source.Kind, Namespace: namespace, Name: source.Name})
	}
	return all
}

// Add adds the workloads of a kind, and lets its engine ask the Fleet for turns.
func (f *Fleet) Add(engine *rollout.Engine) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.engines = append(f.engines, engine)
	engine.Others = f
}

// change is what one process remembers of a source's latest change.
type change struct {
	// surveying is held by anyone who looks at the workloads.
	surveying sync.Mutex
	mu        sync.Mutex
	// revision is that of the content that it is about, and number the one with which that became current.
	revision string
	number   int64
	// healthy is since when members have been seen to be healthy with the change. watched are those that were seen before, without it or not healthy,
	// and vouched those that have vouched.
	healthy          map[string]time.Time
	watched, vouched map[string]bool
	// objects has the UIDs of the members of which that, and what follows, is remembered.
	objects map[string]types.UID
	// crashed has what fails in the pods of members, and examined when they were last looked at.
	crashed  map[string]string
	examined map[string]time.Time
	// fresh is true until all members have been looked at for the first time. What the record says of them counts until then.
	fresh bool
	// void is true if nothing that is remembered of members counts any more at the next survey, since this process did not lead at the latest one.
	void bool
	// unread is why pods could not be looked at.
	unread string
	// analysed has what the analyses of members have shown.
	analysed map[string]analysed
	// stuck are the members that make no progress.
	stuck map[string]stuck
	// admitted has when members were let go that do not show it yet, and yielded when members gave their place back.
	admitted, yielded map[string]time.Time
	// recorded is what this process wrote last, which the cache may not show yet, recordedOn is the name of the revision, and recordedAt is when.
	recorded   spread.Record
	recordedOn string
	recordedAt time.Time
	// brief is that of the Fleet, and analyses is true if it reads AnalysisRuns.
	brief, analyses bool
	// latest is the latest survey, and cost is how long it took.
	latest *Survey
	cost   time.Duration
}

// Survey is how far a change has spread at one moment.
type Survey struct {
	spread.Spread
	rollout.Spreading
	// Current is the revision of the present content; its number is the one that it has, or would get.
	Current pin.Pin
	// Record is what the revision notes, and Revision is its UID; both are empty if there is no revision yet.
	Record   spread.Record
	Revision types.UID
	// Workloads are the objects of the members, by name.
	Workloads map[string]Workload

	at      time.Time
	version string
}

// Workload is a member's object.
type Workload struct {
	Engine *rollout.Engine
	Name   types.NamespacedName
	UID    types.UID
	// Created is when the object was created.
	Created time.Time
	// Code is true while it has the code with which it took the change.
	Code bool
	// standing is what was observed of it.
	standing rollout.Standing
}

// Stops returns how many stops because of failures hold the change back: those that no one has ended.
func (s *Survey) Stops() int {
	return max(0, s.Record.Stops-spread.Ended(s.Meta.Annotations[keys.Resume], s.Current, s.since()))
}

// AwaitsJobs reports whether the first Job of a CronJob may still fail, and that matters.
func (s *Survey) AwaitsJobs() bool {
	return s.Settings.OnFailure >= spread.StopIt && slices.ContainsFunc(s.Has(), func(m spread.Member) bool {
		return m.Stage == spread.Idle && s.Workloads[m.Name].Engine.Kind.RunsJobs()
	})
}

func (f *Fleet) change(source revision.Ref) *change {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, ok := f.changes.Get(source); ok {
		return known.(*change)
	}
	c := &change{brief: f.brief, analyses: f.analyses != nil}
	f.changes.Add(source, c)
	return c
}

// Pause returns how long to wait before a source's workloads are looked at again, so that surveys take at most a tenth of one processor.
func (f *Fleet) Pause(source revision.Ref) time.Duration {
	c := f.change(source)
	c.mu.Lock()
	defer c.mu.Unlock()
	return pauseAfter(c.cost)
}

const (
	// A survey is used for at least so long, and for so many times as long as it took: surveys take at most a tenth of one processor.
	freshFor  = 200 * time.Millisecond
	freshness = 10
	// longestPause bounds that: one survey that had to wait for the API server, or for a busy machine, says nothing about the next.
	longestPause = 5 * time.Second
)

func pauseAfter(cost time.Duration) time.Duration { return min(freshness*cost, longestPause) }

// recent returns a survey that is not too old, about the content that was asked for.
func (f *Fleet) recent(ctx context.Context, c *change, asked rollout.Spreading) (*Survey, error) {
	c.surveying.Lock()
	defer c.surveying.Unlock()
	c.mu.Lock()
	latest, cost := c.latest, c.cost
	c.mu.Unlock()
	if latest != nil && latest.version == asked.Meta.ResourceVersion && f.now().Sub(latest.at) < max(freshFor, pauseAfter(cost)) {
		return latest, nil
	}
	return f.survey(ctx, c, asked)
}

// Survey looks at all workloads that use a source, and at the pods of those that are in the middle of a change. It is false if changes to the source do not spread, or if there is no source.
func (f *Fleet) Survey(ctx context.Context, source revision.Ref) (*Survey, bool, error) {
	asked, ok, err := f.Spreading(ctx, source)
	if !ok || err != nil {
		return nil, false, err
	}
	s, err := f.look(ctx, asked)
	if err == nil && f.readAnalyses(ctx, s) {
		s, err = f.look(ctx, asked)
	}
	if err == nil && f.podsMatter(s) {
		found, unread := f.examine(ctx, s)
		if f.change(source).isNews(unread) {
			// What the controllers of the workloads report still counts.
			log.FromContext(ctx).Error(unread, "cannot look at the pods of workloads that are in the middle of a change")
		}
		if found {
			s, err = f.look(ctx, asked)
		}
	}
	return s, err == nil, err
}

// Look does the same whether or not changes to the source spread.
func (f *Fleet) Look(ctx context.Context, source revision.Ref) (*Survey, error) {
	asked, _, err := f.Spreading(ctx, source)
	if err != nil {
		return nil, err
	}
	s, err := f.look(ctx, asked)
	if err == nil && f.readAnalyses(ctx, s) {
		s, err = f.look(ctx, asked)
	}
	return s, err
}

func (f *Fleet) look(ctx context.Context, asked rollout.Spreading) (*Survey, error) {
	c := f.change(asked.Source)
	c.surveying.Lock()
	defer c.surveying.Unlock()
	s, err := f.survey(ctx, c, asked)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Turns change what is kept.
	seen := *s
	seen.Waves, seen.First = nil, slices.Clone(s.First)
	for _, wave := range s.Waves {
		seen.Waves = append(seen.Waves, spread.Wave{Members: slices.Clone(wave.Members)})
	}
	return &seen, nil
}

// Spreading returns how changes to a source spread. It is false if they do not, or if there is no source.
func (f *Fleet) Spreading(ctx context.Context, source revision.Ref) (asked rollout.Spreading, ok bool, err error) {
	meta := revision.Metadata(source)
	if err := f.client.Get(ctx, client.ObjectKeyFromObject(meta), meta); err != nil {
		return rollout.Spreading{Source: source, Meta: revision.Metadata(source)}, false, client.IgnoreNotFound(err)
	}
	settings, _, _ := optin.Spreading(meta.Annotations, " of "+source.Text())
	if f.readsNamespaces() {
		namespace := index.Namespace()
		err := f.client.Get(ctx, client.ObjectKey{Name: source.Namespace}, namespace)
		if err != nil && !apierrors.IsNotFound(err) {
			return asked, false, err
		}
		shared, _, _ := f.defaults.Stages.Spreading(source.Namespace, namespace.Annotations)
		settings = shared.With(settings)
	}
	settings = settings.Or(f.defaults.Safety)
	return rollout.Spreading{Source: source, Meta: meta, Settings: settings}, settings.Active() || meta.Annotations[keys.Stop] != "", nil
}

func (f *Fleet) readsNamespaces() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.engines) > 0 && !f.engines[0].Options.Namespaced()
}

// Recorded notes that a record was written, before the cache shows it.
func (f *Fleet) Recorded(s *Survey, record spread.Record) {
	c := f.change(s.Source)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recorded, c.recordedOn, c.recordedAt = record, s.Current.Revision, f.now()
	// What was surveyed before must not be used any more.
	c.latest = nil
}

// Describe names a survey's change: "revision 3 of configmap/app".
func (s *Survey) Describe() string {
	return fmt.Sprintf("revision %d of %s", s.Current.Number, s.Source.Text())
}
