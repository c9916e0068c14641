package revision

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/spread"
)

// Snapshot is a source's content at one moment, without the data itself. What may be published about a Secret is keyed (rule 22).
type Snapshot struct {
	// Version is "<uid>/<resourceVersion>" of the source when it was read.
	Version string
	Hash    content.Hash
	Digests content.Digests
	// PlainHash and PlainDigests are what Hash and Digests would be without a key. They are compared with names and notes from before
	// there was a key, and are never published. They are empty if there is no key or if the data was not read.
	PlainHash    content.Hash
	PlainDigests content.Digests
}

// Store reads sources and revisions, and writes revisions. It reads metadata from the cache, and data from the API server one
// object at a time. It keeps no data for longer than a moment, so that memory does not grow with the size of the configuration.
type Store struct {
	cached client.Reader
	live   client.Reader
	writer client.Writer
	now    func() time.Time
	kinds  Kinds
	// perHour is how often a source may get a new current revision (rule 11).
	perHour int
	// pinWindow is how long a revision is spared that is about to be pinned.
	pinWindow time.Duration
	// secretsCached is true if cached has the metadata of Secrets, asUser if the rights are those of a user, and not of confrev.
	secretsCached, asUser bool

	// flights lets the many workloads of one source share one read or write that is in progress (share).
	flights singleflight.Group
	// ensured prepares revisions for all workloads that are about to pin them at the same time.
	ensured rounds[Owner, *prepared]
	// recent has the last of these preparations of each revision that the anchor owns.
	recent *lru.Cache
	// readings has, by source, data that was read a moment ago.
	readings *lru.Cache
	// snapshots has the latest Snapshot by source, so that the workloads of one source share one read.
	snapshots *lru.Cache
	// verified has, by UID, the proof of revisions whose data was read or created here.
	verified *lru.Cache
	// types has, by UID, the types of Secrets, which never change.
	types *lru.Cache
	// known has the UID of the revision that was last verified under a name, while the cache lags behind.
	known *lru.Cache
	// changes has, by source and by part of an object that is followed, how often it got new content recently.
	changes *lru.Cache
	// sightings has, by UID, since when revisions have been seen as they were last about to be pinned.
	sightings *lru.Cache
	// labels has, by source, how often its label was written.
	labels *lru.Cache
	// recordsLock guards the creation of entries of changes, labels and keys.
	recordsLock sync.Mutex
	// keys has, by namespace, the key of its hashes.
	keys *lru.Cache
	// madeFor has, by revision, the workload that is about to be created for which the revision was made without owners.
	madeFor *lru.Cache
	// done has writes that need not be repeated while the cache lags behind them.
	done *lru.Cache
}

// remembered is the number of entries that each of a Store's caches may have. An evicted entry costs a read.
const remembered = 20_000

// Kinds recognizes the objects that owner references name.
type Kinds interface {
	// IsWorkload reports whether a reference names a workload, and IsUser whether it names a workload or a holder.
	IsWorkload(reference metav1.OwnerReference) bool
	IsUser(reference metav1.OwnerReference) bool
}

// NewStore returns a Store. cached reads the metadata of sources and revisions, and must have the index BySource. live reads from
// the API server. perHour is how often a source may get a new current revision within an hour.
func NewStore(cached, live client.Reader, writer client.Writer, now func() time.Time, kinds Kinds, perHour int) *Store {
	return &Store{
		cached: cached, live: live, writer: writer, now: now, kinds: kinds, perHour: perHour, pinWindow: PinWindow, secretsCached: true,
		snapshots: lru.New(remembered), verified: lru.New(remembered), types: lru.New(remembered), known: lru.New(remembered), done: lru.New(remembered),
		changes: lru.New(remembered), labels: lru.New(remembered), keys: lru.New(remembered), sightings: lru.New(remembered),
		madeFor: lru.New(remembered),
		recent:  lru.New(1000), readings: lru.New(readings),
	}
}

// WithoutSecrets makes the Store read keys from the API server, because the cache has no Secrets. It returns the Store.
func (s *Store) WithoutSecrets() *Store {
	s.secretsCached = false
	return s
}

// AsUser prepares the Store for the rights of a user who mostly reads: it creates a key only together with a revision, and does
// not blame confrev for a missing right. It returns the Store.
func (s *Store) AsUser() *Store {
	s.asUser = true
	return s
}

// Observation is what is known about a source, as far as deciding and writing need it.
type Observation struct {
	plan.Source
	Snapshot Snapshot
	// Object is the source's metadata; nil if the source does not exist.
	Object *metav1.PartialObjectMetadata
	// Key is the key of the source's hashes; nil for a ConfigMap, and for a source that does not exist.
	Key *content.Key
	// noted has the version of the source that each revision notes, and records what each notes of how far it has spread.
	noted   map[string]string
	records map[string]spread.Record
}

// Exists reports whether the source has a revision with this name.
func (o Observation) Exists(revision string) bool {
	_, exists := o.noted[revision]
	return exists
}

// Observe observes a source and its revisions. meta is the source's metadata, nil if the source does not exist. pinned is the name
// of the revision that the caller's workload pins. Observe reads the source's data unless that revision notes the source's present
// version; the annotations of other revisions may come from anyone.
func (s *Store) Observe(ctx context.Context, source Ref, meta *metav1.PartialObjectMetadata, pinned string) (Observation, error) {
	revisions, err := s.list(ctx, source, pinned)
	if err != nil {
		return Observation{}, err
	}
	seen := Observation{noted: map[string]string{}, records: map[string]spread.Record{}}
	for i := range revisions {
		described, believed, err := s.describe(ctx, &revisions[i], pinned)
		if err != nil {
			return Observation{}, err
		}
		if !believed {
			continue
		}
		seen.Revisions = append(seen.Revisions, described)
		seen.noted[described.Name] = revisions[i].Annotations[keys.SourceVersion]
		seen.keepRecord(&revisions[i])
	}
	if meta == nil {
		return seen, s.observeAbsence(ctx, source, &seen, revisions, pinned)
	}
	if err := s.refuseRevision(ctx, meta); err != nil {
		return Observation{}, err
	}
	snapshot, present, err := s.snapshot(ctx, source, version(meta), seen, pinned)
	if err != nil {
		return seen, err
	}
	if !present {
		return seen, s.observeAbsence(ctx, source, &seen, revisions, pinned)
	}
	seen.Object = meta
	if seen.Key, err = s.keyFor(ctx, source.Kind, source.Namespace); err != nil {
		return Observation{}, err
	}
	if !seen.Key.Made(snapshot.Hash) {
		return Observation{}, NewChanged("the key of namespace %s", source.Namespace)
	}
	seen.Present = true
	seen.setContent(snapshot)
	return seen, s.settleName(ctx, source, &seen, revisions, pinned)
}

// setContent notes what a source contains, under the key of the observation.
func (o *Observation) setContent(snapshot Snapshot) {
	o.Snapshot, o.Hash, o.Digests, o.PlainDigests, o.Scheme = snapshot, snapshot.Hash, snapshot.Digests, snapshot.PlainDigests, o.Key.Scheme()
}

// settleName finds the name of the revision with the present content. It proves that revision, whose number counts from now on, and
// ignores revisions that are not what their labels say (rule 20).
func (s *Store) settleName(ctx context.Context, source Ref, seen *Observation, revisions []metav1.PartialObjectMetadata, pinned string) error {
	for {
		seen.Name = nameFor(source, *seen, pinned)
		at := slices.IndexFunc(seen.Revisions, func(r plan.Revision) bool { return r.Name == seen.Name && r.Hash == seen.Hash })
		if at < 0 || seen.Name == pinned {
			return nil
		}
		i := slices.IndexFunc(revisions, func(m metav1.PartialObjectMetadata) bool { return m.Name == seen.Name })
		held, proven, err := s.prove(ctx, &revisions[i])
		if err != nil || proven && held.Hash == seen.Hash {
			return ignoreChanged(err)
		}
		if proven {
			seen.Revisions[at].Hash, seen.Revisions[at].Digests = held.Hash, held.Digests
			continue
		}
		seen.Revisions = slices.Delete(seen.Revisions, at, at+1)
		delete(seen.noted, seen.Name)
	}
}

// refuseRevision refuses a source that is itself a revision. An object that only looks like one is a source like any other.
func (s *Store) refuseRevision(ctx context.Context, meta *metav1.PartialObjectMetadata) error {
	source, err := s.MadeOf(ctx, meta)
	if err != nil || source == (pin.Source{}) {
		return ignoreChanged(err)
	}
	return notice.Terminal("NotASource", "%s/%s is itself a revision; refer to its source %s instead", source.Kind, meta.Name, source)
}

// nameFor returns the name of the revision with the source's content: that of an existing one, if any. If several have it, the
// choice must not depend on their order: first the one that is already pinned, then the first name that confrev would choose.
// Other names are not used for a Secret: anyone who may create Secrets could make copies of guesses, and see which one is pinned.
func nameFor(source Ref, seen Observation, pinned string) string {
	var equal, taken []string
	for _, revision := range seen.Revisions {
		if revision.Hash == seen.Hash {
			equal = append(equal, revision.Name)
		}
		taken = append(taken, revision.Name)
	}
	if slices.Contains(equal, pinned) {
		return pinned
	}
	for name := range content.RevisionNames(source.Name, seen.Hash) {
		if slices.Contains(equal, name) {
			return name
		}
	}
	if len(equal) > 0 && seen.Key == nil {
		return slices.Min(equal)
	}
	for name := range content.RevisionNames(source.Name, seen.Hash) {
		if !slices.Contains(taken, name) {
			return name
		}
	}
	return content.RevisionName(source.Name, seen.Hash, 0)
}

// list returns the revisions of a source. One that is being deleted counts only for a workload that pins it: its pods can read it until it is gone, and
// then it is recreated (rule 9). To others, which could pin it only now, it is as good as gone.
func (s *Store) list(ctx context.Context, source Ref, pinned string) ([]metav1.PartialObjectMetadata, error) {
	list := NewMetadataList(source.Kind)
	err := s.cached.List(ctx, list, client.InNamespace(source.Namespace), client.MatchingFields{BySource: source.Text()})
	if err != nil {
		return nil, fmt.Errorf("list revisions of %s: %w", source, err)
	}
	return slices.DeleteFunc(list.Items, func(m metav1.PartialObjectMetadata) bool { return m.DeletionTimestamp != nil && m.Name != pinned }), nil
}

// describe returns what a revision contains according to its metadata, and reports whether to believe that it is a revision. If the
// metadata says too little, or does not match the name, describe reads the revision, once (rule 20; rule 8: a new hash causes no
// rollout).
func (s *Store) describe(ctx context.Context, meta *metav1.PartialObjectMetadata, pinned string) (plan.Revision, bool, error) {
	key, err := s.keyFor(ctx, kindOf(meta), meta.Namespace)
	if err != nil {
		return plan.Revision{}, false, err
	}
	described := Labelled(meta)
	if (*content.Key)(nil).Made(described.Hash) {
		source := SourceOf(kindOf(meta), meta)
		described.Hash, described.Digests = key.Hash(source, described.Hash), key.Digests(source, described.Digests)
	}
	_, known := s.proof(meta, key)
	if !known && described.Digests != nil && key.Made(described.Hash) && credible(meta, pinned) {
		return described, true, nil
	}
	held, proven, err := s.prove(ctx, meta)
	described.Hash, described.Digests = held.Hash, held.Digests
	return described, proven, ignoreChanged(err)
}

// snapshot returns the source's content at the given version or a later one, and reports whether the source still exists.
func (s *Store) snapshot(ctx context.Context, source Ref, version string, seen Observation, pinned string) (Snapshot, bool, error) {
	for _, revision := range seen.Revisions {
		if revision.Name == pinned && seen.noted[revision.Name] == version && revision.Digests != nil {
			return Snapshot{Version: version, Hash: revision.Hash, Digests: revision.Digests}, true, nil
		}
	}
	key, err := s.keyFor(ctx, source.Kind, source.Namespace)
	if err != nil {
		return Snapshot{}, false, err
	}
	if kept, ok := s.snapshots.Get(source); ok && kept.(Snapshot).Version == version && key.Made(kept.(Snapshot).Hash) {
		return kept.(Snapshot), true, nil
	}
	read, err := share(ctx, s, "read "+source.String()+" "+version, func(ctx context.Context) (Snapshot, error) {
		begun := s.now()
		data, snapshot, err := s.read(ctx, source, source.Source())
		if err == nil {
			s.snapshots.Add(source, snapshot)
			s.keepReading(source, &reading{data, snapshot, begun})
		}
		return snapshot, err
	})
	if apierrors.IsNotFound(err) {
		return Snapshot{}, false, nil
	}
	if err != nil {
		return Snapshot{}, false, err
	}
	return read, true, nil
}

// UnkeyedDigests returns the digests of a Secret's data without a key, to compare them with notes from before there was a key.
func (s *Store) UnkeyedDigests(ctx context.Context, source Ref, seen Observation) (content.Digests, error) {
	if seen.PlainDigests != nil {
		return seen.PlainDigests, nil
	}
	_, snapshot, err := s.read(ctx, source, source.Source())
	if err == nil && snapshot.Version != seen.Snapshot.Version || apierrors.IsNotFound(err) {
		return nil, NewChanged("%s", source)
	}
	return snapshot.PlainDigests, err
}

// read reads the data of a source, or of a revision of it, from the API server.
func (s *Store) read(ctx context.Context, ref Ref, source pin.Source) (client.Object, Snapshot, error) {
	obj, err := s.fetch(ctx, ref)
	if err != nil {
		return nil, Snapshot{}, err
	}
	if err := checkKeys(obj, source); err != nil {
		return obj, Snapshot{}, err
	}
	key, err := s.keyFor(ctx, ref.Kind, ref.Namespace)
	if err != nil {
		return nil, Snapshot{}, err
	}
	return obj, newSnapshot(key, obj, source), nil
}

// fetch reads a ConfigMap or Secret, and remembers the type of a Secret.
func (s *Store) fetch(ctx context.Context, ref Ref) (client.Object, error) {
	obj := NewSource(ref.Kind)
	if err := s.live.Get(ctx, ref.key(), obj); err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	if secret, ok := obj.(*corev1.Secret); ok && secret.UID != "" {
		s.types.Add(secret.UID, secret.Type)
	}
	return obj, nil
}

// MaxKeys is the number of keys that a source may have (rule 11). What is known of a revision is kept in memory, with a digest for each key, and an object
// has room for a hundred thousand keys.
const MaxKeys = 10_000

// checkKeys returns a TerminalError if a source, or a revision of it, has too many keys.
func checkKeys(obj client.Object, source pin.Source) error {
	count := 0
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		count = len(o.Data) + len(o.BinaryData)
	case *corev1.Secret:
		count = len(o.Data)
	}
	if count > MaxKeys {
		return notice.Terminal(TooBig, "%s has %d keys, and confrev follows at most %d: split it; pins stay as they are", source, count, MaxKeys)
	}
	return nil
}

// newSnapshot returns the snapshot, under a key, of an object that is a source or a revision of it.
func newSnapshot(key *content.Key, obj client.Object, source pin.Source) Snapshot {
	held := ContentOf(obj)
	hash, digests := held.Hash(), held.Digests()
	snapshot := Snapshot{Version: version(obj), Hash: key.Hash(source, hash), Digests: key.Digests(source, digests)}
	if key != nil {
		snapshot.PlainHash, snapshot.PlainDigests = hash, digests
	}
	return snapshot
}

// once runs a write once for all calls with the same key: those at the same time, and those before the cache shows its result.
func (s *Store) once(ctx context.Context, key string, write func(ctx context.Context) error) error {
	if _, ok := s.done.Get(key); ok {
		return nil
	}
	_, err := share(ctx, s, key, func(ctx context.Context) (struct{}, error) {
		err := write(ctx)
		if err == nil {
			s.done.Add(key, struct{}{})
		}
		return struct{}{}, err
	})
	return err
}
