package revision

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// keyField is the data key of the Secret that holds a namespace's key.
const keyField = "key"

// KeyUnreadable is the reason of a TerminalError about a key that confrev cannot use. What it keys stays as it is (rule 22).
const KeyUnreadable = "KeyUnreadable"

// KeyHidden takes the place of KeyUnreadable if a user may not read the key. It says nothing about confrev, and is never an event.
const KeyHidden = "KeyHidden"

// namespaceKey is the key of a namespace, as it was last seen.
type namespaceKey struct {
	key *content.Key
	// secret is the key itself, until it is stored in a Secret; uid is the UID of that Secret.
	secret []byte
	uid    types.UID
}

type provisional struct{}

// Provisional returns a context in which no namespace gets a key, because a dry run creates nothing. Hashes are then keyed with the
// key that this process would create.
func Provisional(ctx context.Context) context.Context {
	return context.WithValue(ctx, provisional{}, true)
}

// IsProvisional reports whether a context is that of a dry run.
func IsProvisional(ctx context.Context) bool { return ctx.Value(provisional{}) != nil }

// Key returns the key of a namespace (rule 22), and creates it if there is none.
func (s *Store) Key(ctx context.Context, namespace string) (*content.Key, error) {
	kept, known := s.cachedKey(namespace)
	if s.secretsCached && known && kept.uid != "" {
		meta := Metadata(Ref{pin.Secret, namespace, keys.KeySecret})
		if err := s.cached.Get(ctx, client.ObjectKeyFromObject(meta), meta); err == nil && meta.UID == kept.uid {
			return kept.key, nil
		}
		// The Secret was deleted or replaced, or the cache lags behind.
	}
	return s.readKey(ctx, namespace, !s.asUser && !IsProvisional(ctx))
}

func (s *Store) cachedKey(namespace string) (namespaceKey, bool) {
	kept, ok := s.keys.Get(namespace)
	if !ok {
		return namespaceKey{}, false
	}
	return kept.(namespaceKey), true
}

// readKey reads the key from the API server, once for all concurrent callers.
func (s *Store) readKey(ctx context.Context, namespace string, create bool) (*content.Key, error) {
	return share(ctx, s, fmt.Sprintf("key %s %t", namespace, create), func(ctx context.Context) (*content.Key, error) {
		secret := &corev1.Secret{}
		err := s.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: keys.KeySecret}, secret)
		if apierrors.IsNotFound(err) {
			return s.newKey(ctx, namespace, create)
		}
		if err != nil {
			return nil, s.keyError(namespace, err)
		}
		return s.keepKey(secret)
	})
}

// newKey creates a key. If several replicas create one at the same time, all use the first.
func (s *Store) newKey(ctx context.Context, namespace string, create bool) (*content.Key, error) {
	kept, err := s.provisionalKey(namespace)
	if err != nil || !create {
		return kept.key, err
	}
	immutable := true
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: keys.KeySecret},
		Type:       optin.KeyType, Immutable: &immutable, Data: map[string][]byte{keyField: kept.secret},
	}
	err = s.writer.Create(ctx, secret, client.FieldOwner(keys.FieldManager))
	if apierrors.IsAlreadyExists(err) {
		err = s.live.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	}
	if err != nil {
		return nil, s.keyError(namespace, err)
	}
	return s.keepKey(secret)
}

// provisionalKey returns the key that this process would create for a namespace. It is the same one each time.
func (s *Store) provisionalKey(namespace string) (namespaceKey, error) {
	s.recordsLock.Lock()
	defer s.recordsLock.Unlock()
	if kept, ok := s.cachedKey(namespace); ok && kept.uid == "" {
		return kept, nil
	}
	secret := make([]byte, content.KeySize)
	if _, err := rand.Read(secret); err != nil {
		return namespaceKey{}, err
	}
	key, err := content.NewKey(secret)
	kept := namespaceKey{key: key, secret: secret}
	s.keys.Add(namespace, kept)
	return kept, err
}

// keepKey returns the key in a Secret and remembers it. A Secret that anyone could change, or that garbage collection would delete with something
// else, was not created by confrev.
func (s *Store) keepKey(secret *corev1.Secret) (*content.Key, error) {
	key, err := content.NewKey(secret.Data[keyField])
	if err != nil || secret.Type != optin.KeyType || !isImmutable(secret) {
		return nil, notice.Terminal(KeyUnreadable, "secret/%s was not created by confrev, so nothing that comes from Secrets "+
			"is pinned or rolled out in this namespace: delete it, and confrev creates another", keys.KeySecret)
	}
	if len(secret.OwnerReferences) > 0 {
		return nil, notice.Terminal(KeyUnreadable, "secret/%s has owners, so it would be deleted with them and lost, and nothing that comes from "+
			"Secrets is pinned or rolled out in this namespace: remove them from metadata.ownerReferences", keys.KeySecret)
	}
	s.keys.Add(secret.Namespace, namespaceKey{key: key, uid: secret.UID})
	return key, nil
}

// keyError returns the error about a key that cannot be read or created. It is a TerminalError if a right is missing.
func (s *Store) keyError(namespace string, err error) error {
	if _, refused := confinementRefusal(err); refused {
		return ExplainRefusal(err)
	}
	forbidden := apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	switch {
	case forbidden && s.asUser:
		return notice.Terminal(KeyHidden, "you may not get or create secret/%s, the key of this namespace's hashes: which content of a Secret is current is not known", keys.KeySecret)
	case forbidden:
		return notice.Terminal(KeyUnreadable, "may not get or create secret/%s, the key of this namespace's hashes, so nothing that "+
			"comes from Secrets is pinned or rolled out here: grant confrev those rights", keys.KeySecret)
	}
	return fmt.Errorf("read the key of namespace %s: %w", namespace, err)
}

// keyFor returns the key of a source's hashes, which is nil for a ConfigMap.
func (s *Store) keyFor(ctx context.Context, kind pin.Kind, namespace string) (*content.Key, error) {
	if kind == pin.ConfigMap {
		return nil, nil
	}
	return s.Key(ctx, namespace)
}

// settleKey makes sure that the key that a revision's name is about to be made with is stored.
func (s *Store) settleKey(ctx context.Context, source Ref, name content.Hash) error {
	if source.Kind == pin.ConfigMap {
		return nil
	}
	if kept, ok := s.cachedKey(source.Namespace); ok && kept.uid != "" && kept.key.Made(name) {
		return nil
	}
	key, err := s.readKey(ctx, source.Namespace, true)
	if err == nil && !key.Made(name) {
		return NewChanged("the key of namespace %s", source.Namespace)
	}
	return err
}
