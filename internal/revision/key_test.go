package revision

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// keyServer is an API server that counts what is read of Secrets' data, and may refuse.
type keyServer struct {
	client.Client
	mu          sync.Mutex
	reads       map[string]int
	get, create error
}

func newKeyServer(t *testing.T, objects ...client.Object) *keyServer {
	t.Helper()
	s := &keyServer{reads: map[string]int{}}
	s.Client = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).
		WithIndex(&corev1.Secret{}, BySource, IndexBySource(pin.Secret)).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
				if _, whole := obj.(*corev1.Secret); whole {
					s.mu.Lock()
					defer s.mu.Unlock()
					s.reads[key.Name]++
					if s.get != nil && key.Name == keys.KeySecret {
						err := s.get
						if apierrors.IsNotFound(err) {
							s.get = nil // someone is faster
						}
						return err
					}
				}
				return c.Get(ctx, key, obj, opts...)
			},
			Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
				if s.create != nil {
					return s.create
				}
				if obj.GetUID() == "" {
					obj.SetUID(types.UID("uid-" + obj.GetName()))
				}
				return c.Create(ctx, obj, opts...)
			},
		}).Build()
	return s
}

func (s *keyServer) store() *Store { return NewStore(s, s, s, time.Now, appsKinds{}, 100) }

// keySecret returns the Secret of the key, nil if there is none.
func (s *keyServer) keySecret(t *testing.T) *corev1.Secret {
	t.Helper()
	list := &corev1.SecretList{}
	if err := s.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Name == keys.KeySecret {
			return &list.Items[i]
		}
	}
	return nil
}

var secrets = schema.GroupResource{Resource: "secrets"}

func keySecret(letter byte, uid types.UID) *corev1.Secret {
	made := gen.Secret(keys.KeySecret, optin.KeyType, map[string][]byte{keyField: bytes.Repeat([]byte{letter}, content.KeySize)})
	made.Immutable, made.UID = new(true), uid
	return made
}

// Rule 22.
func TestAKeyIsMadeOnDemandAndOnlyOnce(t *testing.T) {
	server := newKeyServer(t)
	var keysOf [3]*content.Key
	var group sync.WaitGroup
	stores := [3]*Store{server.store(), server.store(), server.store()}
	for i, store := range stores {
		group.Go(func() {
			var err error
			if keysOf[i], err = store.Key(t.Context(), gen.Namespace); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	server.get = apierrors.NewNotFound(secrets, keys.KeySecret)
	late, err := server.store().Key(t.Context(), gen.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range append(keysOf[:], late) {
		if key.Scheme() == "" || key.Scheme() != late.Scheme() {
			t.Errorf("the replicas have %v and %v", keysOf, late)
		}
	}
	made := server.keySecret(t)
	if made.Type != optin.KeyType || !isImmutable(made) || len(made.Data) != 1 || len(made.Labels)+len(made.Annotations)+len(made.OwnerReferences) > 0 {
		t.Errorf("it is %+v", made.ObjectMeta)
	}
	if IsRevision(made) {
		t.Error("it counts as a revision")
	}
	if key, err := server.store().Key(t.Context(), "other"); err != nil || key.Scheme() == late.Scheme() {
		t.Errorf("two namespaces have one key: %v, %v", key, err)
	}
	server.reads[keys.KeySecret] = 0
	for _, store := range stores {
		if _, err := store.Key(t.Context(), gen.Namespace); err != nil {
			t.Error(err)
		}
	}
	if reads := server.reads[keys.KeySecret]; reads > 0 {
		t.Errorf("it is read %d times more", reads)
	}
}

func TestADryRunMakesNoKey(t *testing.T) {
	server := newKeyServer(t)
	store := server.store()
	dry, err := store.Key(Provisional(t.Context()), gen.Namespace)
	if err != nil || server.keySecret(t) != nil {
		t.Fatalf("%v; made: %v", err, server.keySecret(t))
	}
	again, _ := store.Key(Provisional(t.Context()), gen.Namespace)
	wet, err := store.Key(t.Context(), gen.Namespace)
	if err != nil || server.keySecret(t) == nil || wet.Scheme() != dry.Scheme() || again.Scheme() != dry.Scheme() {
		t.Errorf("dry %v, again %v, then %v: %v", dry, again, wet, err)
	}
}

func TestUnreadableKeyIsUserError(t *testing.T) {
	short, mutable, other, none := keySecret('a', "1"), keySecret('a', "1"), keySecret('a', "1"), keySecret('a', "1")
	short.Data[keyField], mutable.Immutable, other.Type, none.Data = []byte("secret"), nil, corev1.SecretTypeOpaque, nil
	// Garbage collection would delete it with its owner.
	owned := keySecret('a', "1")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "bait", UID: "2"}}
	forbidden := apierrors.NewForbidden(secrets, keys.KeySecret, nil)
	for name, test := range map[string]struct {
		objects     []client.Object
		get, create error
		terminal    bool
		says        string
	}{
		"too short":          {objects: []client.Object{short}, terminal: true, says: "delete it"},
		"mutable":            {objects: []client.Object{mutable}, terminal: true, says: "delete it"},
		"of another type":    {objects: []client.Object{other}, terminal: true, says: "delete it"},
		"empty":              {objects: []client.Object{none}, terminal: true, says: "delete it"},
		"owned":              {objects: []client.Object{owned}, terminal: true, says: "remove them"},
		"it may not be read": {get: forbidden, terminal: true, says: "grant confrev those rights"},
		"it may not be made": {create: forbidden, terminal: true, says: "grant confrev those rights"},
		"no answer":          {get: errors.New("no answer"), says: "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			server := newKeyServer(t, test.objects...)
			server.get, server.create = test.get, test.create
			key, err := server.store().Key(t.Context(), gen.Namespace)
			terminal, is := errors.AsType[*notice.TerminalError](err)
			if key != nil || is != test.terminal || is && terminal.Reason != KeyUnreadable || !strings.Contains(err.Error(), test.says) {
				t.Fatalf("%v, %v", key, err)
			}
			if strings.Contains(err.Error(), "aaaa") {
				t.Errorf("it tells the key: %v", err)
			}
		})
	}
}

// The state of a namespace whose Secret db was pinned before: with an unkeyed revision, or one made with key a or b.
type keyedCase struct {
	server   *keyServer
	source   *corev1.Secret
	revision *corev1.Secret
}

func newKeyedCase(t *testing.T, made *content.Key, key client.Object, noted bool) keyedCase {
	t.Helper()
	source := gen.Secret("db", corev1.SecretTypeOpaque, map[string][]byte{"pin": []byte("1234")})
	of := gen.Source("secret/db")
	held := newSnapshot(made, source, of)
	if !noted {
		held.Version = "elsewhere/1"
	}
	was := object(source, held, content.RevisionName("db", held.Hash, 0), 3).(*corev1.Secret)
	if !noted {
		was.Annotations[keys.SourceVersion] = held.Version
	}
	was.UID = "uid-of-revision"
	objects := []client.Object{source, was}
	if key != nil {
		objects = append(objects, key)
	}
	return keyedCase{newKeyServer(t, objects...), source, was}
}

func (c keyedCase) observe(t *testing.T, store *Store) Observation {
	t.Helper()
	meta := Metadata(Ref{pin.Secret, gen.Namespace, "db"})
	if err := c.server.Get(t.Context(), client.ObjectKeyFromObject(meta), meta); err != nil {
		t.Fatal(err)
	}
	seen, err := store.Observe(t.Context(), Ref{pin.Secret, gen.Namespace, "db"}, meta, c.revision.Name)
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func keyOf(t *testing.T, letter byte) *content.Key {
	t.Helper()
	key, err := content.NewKey(bytes.Repeat([]byte{letter}, content.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// Rule 22: what was made without a key, or with one that is lost, is still used while its content is the same. An upgrade, a lost key
// and a restored backup roll nothing.
func TestRevisionOfOldHashIsReused(t *testing.T) {
	a := keyOf(t, 'a')
	for name, test := range map[string]struct {
		made    *content.Key
		key     client.Object
		noted   bool
		reads   int
		derived bool
	}{
		"no key yet":                        {nil, nil, true, 0, true},
		"no key yet, and a restored backup": {nil, nil, false, 1, true},
		"a key, made before it":             {nil, keySecret('a', "1"), true, 0, true},
		"the same key":                      {a, keySecret('a', "1"), true, 0, true},
		"a restored backup":                 {a, keySecret('a', "2"), false, 1, true},
		"a restored backup without its key": {a, nil, false, 2, false},
		"the key is lost":                   {a, nil, true, 1, false},
		"the key was replaced":              {a, keySecret('b', "1"), true, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newKeyedCase(t, test.made, test.key, test.noted)
			store := c.server.store()
			seen := c.observe(t, store)
			if seen.Name != c.revision.Name || len(seen.Revisions) != 1 || seen.Revisions[0].Hash != seen.Hash || !seen.Key.Made(seen.Hash) {
				t.Errorf("the content is that of %s, with %v: %+v", seen.Name, seen.Key, seen.Revisions)
			}
			if !seen.Digests.SameKeys(seen.Revisions[0].Digests, []string{"pin"}) || seen.Digests["pin"] == "" {
				t.Errorf("the source has %v, the revision %v", seen.Digests, seen.Revisions[0].Digests)
			}
			if reads := c.server.reads["db"] + c.server.reads[c.revision.Name]; reads != test.reads {
				t.Errorf("%d reads of data: %v", reads, c.server.reads)
			}
			meta := Metadata(Ref{pin.Secret, gen.Namespace, c.revision.Name})
			if err := c.server.Get(t.Context(), client.ObjectKeyFromObject(meta), meta); err != nil {
				t.Fatal(err)
			}
			if derived, err := store.Derived(t.Context(), meta); derived != test.derived || err != nil {
				t.Errorf("its name follows from its content: %t, %v", derived, err)
			}
			p, created, err := store.Ensure(t.Context(), Ref{pin.Secret, gen.Namespace, "db"}, seen, 3, Owner{})
			if err != nil || created || p.Revision != c.revision.Name {
				t.Errorf("ensured %s, created: %t, %v", p, created, err)
			}
		})
	}
}

// The next content gets a keyed name, and nothing that anyone could compute without the key.
func TestSecretRevisionNeedsTheKey(t *testing.T) {
	c := newKeyedCase(t, nil, nil, true)
	store := c.server.store()
	c.observe(t, store)
	c.source.Data["pin"] = []byte("5678")
	if err := c.server.Update(t.Context(), c.source); err != nil {
		t.Fatal(err)
	}
	seen := c.observe(t, store)
	p, created, err := store.Ensure(t.Context(), Ref{pin.Secret, gen.Namespace, "db"}, seen, 4, Owner{})
	if err != nil || !created {
		t.Fatalf("%s, created: %t, %v", p, created, err)
	}
	made := &corev1.Secret{}
	if err := c.server.Get(t.Context(), client.ObjectKey{Namespace: gen.Namespace, Name: p.Revision}, made); err != nil {
		t.Fatal(err)
	}
	guess := content.FromSecret(c.source)
	texts := []string{made.Name, made.Labels[keys.Content], made.Annotations[keys.KeyDigests], seen.Scheme + seen.Digests.Sum(true, nil)}
	texts = slices.AppendSeq(texts, content.RevisionNames("db", guess.Hash()))
	text := strings.Join(texts[:4], " ")
	for _, known := range append([]string{string(guess.Hash())[3:], guess.Digests()["pin"], guess.Digests().Sum(true, nil)}, texts[4:]...) {
		if strings.Contains(text, known) {
			t.Errorf("%s can be computed without the key: %s", known, text)
		}
	}
	if !seen.Key.Made(content.Hash(made.Labels[keys.Content])) || !IsRevision(made) {
		t.Errorf("its label is %s", made.Labels[keys.Content])
	}
}

// Someone who may create Secrets, but not read them, learns nothing from making revisions of guesses: none of them is ever used.
func TestACopyOfAGuessIsNotUsed(t *testing.T) {
	c := newKeyedCase(t, nil, keySecret('a', "1"), false)
	guess := c.revision.Name
	c.revision.Name = "" // nothing is pinned
	if seen := c.observe(t, c.server.store()); seen.Name == guess || !pin.Names("db", seen.Name) {
		t.Errorf("the content is that of %s", seen.Name)
	}
}

// A lost revision of a Secret comes back under the name that follows from the key (rule 9), and under no other: anyone who may write a template
// could pin guesses, and see which of them comes back.
func TestOnlyAKeyedRevisionIsRestored(t *testing.T) {
	for name, made := range map[string]*content.Key{"keyed": keyOf(t, 'a'), "a name that can be guessed": nil} {
		t.Run(name, func(t *testing.T) {
			c := newKeyedCase(t, made, keySecret('a', "1"), true)
			if err := c.server.Delete(t.Context(), c.revision); err != nil {
				t.Fatal(err)
			}
			restored, err := c.server.store().Restore(t.Context(), gen.Source("secret/db"), Ref{pin.Secret, gen.Namespace, c.revision.Name}, 3)
			if err != nil || restored != (made != nil) {
				t.Errorf("restored: %t, %v", restored, err)
			}
		})
	}
}

// Pins that someone has written copy nothing that confrev never copies (rule 10).
func TestWhatIsNeverCopiedIsNotRestored(t *testing.T) {
	lock := gen.ConfigMap("lock", map[string]string{"k": "v"})
	lock.Annotations = map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}
	token := gen.Secret("token", corev1.SecretTypeServiceAccountToken, map[string][]byte{"token": []byte("t")})
	for _, source := range []client.Object{lock, token} {
		t.Run(source.GetName(), func(t *testing.T) {
			server := newKeyServer(t, source, keySecret('a', "1"))
			held := ContentOf(source)
			of := pin.Source{Kind: held.Kind, Name: source.GetName()}
			var key *content.Key
			if held.Kind == pin.Secret {
				key = keyOf(t, 'a')
			}
			name := content.RevisionName(of.Name, key.Hash(of, held.Hash()), 0)
			restored, err := server.store().Restore(t.Context(), of, Ref{of.Kind, gen.Namespace, name}, 1)
			if err != nil || restored {
				t.Errorf("restored: %t, %v", restored, err)
			}
		})
	}
}

// A key that is deleted while confrev runs is noticed, and none of what was found under it is taken for found under another.
func TestALostKeyIsNoticed(t *testing.T) {
	for name, other := range map[string]*corev1.Secret{"deleted": nil, "replaced": keySecret('b', "2")} {
		t.Run(name, func(t *testing.T) {
			c := newKeyedCase(t, keyOf(t, 'a'), keySecret('a', "1"), false)
			store := c.server.store()
			before := c.observe(t, store)
			meta := Metadata(Ref{pin.Secret, gen.Namespace, c.revision.Name})
			if err := c.server.Get(t.Context(), client.ObjectKeyFromObject(meta), meta); err != nil {
				t.Fatal(err)
			}
			if derived, err := store.Derived(t.Context(), meta); err != nil || !derived {
				t.Fatalf("%t, %v", derived, err)
			}
			if err := c.server.Delete(t.Context(), keySecret('a', "1")); err != nil {
				t.Fatal(err)
			}
			if other != nil {
				other.ResourceVersion = ""
				if err := c.server.Create(t.Context(), other, client.FieldOwner("someone")); err != nil {
					t.Fatal(err)
				}
			}
			after := c.observe(t, store)
			if after.Key.Scheme() == before.Key.Scheme() || after.Hash == before.Hash || after.Name != before.Name || !after.Key.Made(after.Hash) {
				t.Errorf("before %v %s, after %v %s", before.Key, before.Hash, after.Key, after.Hash)
			}
			if other != nil && after.Key.Scheme() != keyOf(t, 'b').Scheme() {
				t.Errorf("the key is %v", after.Key)
			}
			if derived, err := store.Derived(t.Context(), meta); err != nil || derived {
				t.Errorf("its name follows from its content under another key: %t, %v", derived, err)
			}
			if made := c.server.keySecret(t); made == nil {
				t.Error("there is none")
			}
		})
	}
}

// Who only looks makes no key; who makes a revision makes the key that names it.
func TestLookingMakesNoKeyButMakingARevisionDoes(t *testing.T) {
	source := gen.Secret("db", corev1.SecretTypeOpaque, map[string][]byte{"pin": []byte("1234")})
	c := keyedCase{newKeyServer(t, source), source, &corev1.Secret{}}
	store := c.server.store().AsUser()
	seen := c.observe(t, store)
	if c.server.keySecret(t) != nil {
		t.Error("looking made a key")
	}
	p, created, err := store.Ensure(t.Context(), Ref{pin.Secret, gen.Namespace, "db"}, seen, 1, Owner{})
	if err != nil || !created || c.server.keySecret(t) == nil || p.Revision != seen.Name {
		t.Errorf("%s, created: %t, %v; key %v", p, created, err, c.server.keySecret(t))
	}
}

// snapshotOf returns what an object holds, without a key.
func snapshotOf(obj client.Object) Snapshot { return newSnapshot(nil, obj, pin.Source{}) }
