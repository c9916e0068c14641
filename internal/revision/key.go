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
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// keyField is where the Secret of a namespace's key has it.
const keyField = "key"

// KeyUnreadable is the reason of a TerminalError about a key that confrev cannot use: what it keys stays as it is then (rule 22).
const KeyUnreadable = "KeyUnreadable"

// namespaceKey is the key of a namespace, as it was last seen.
type namespaceKey struct {
	key *content.Key
	// secret is the key itself, while it is only about to be kept in a Secret; uid is that of the Secret.
	secret []byte
	uid    types.UID
}

type provisional struct{}

// Provisional returns a context under which a namespace without a key gets none: a dry run makes nothing. What is keyed then
// is so with the key that this process would make.
func Provisional(ctx context.Context) context.Context {
	return context.WithValue(ctx, provisional{}, true)
}

// Key returns the key of a namespace (rule 22), and makes it if there is none.
func (s *Store) Key(ctx context.Context, namespace string) (*content.Key, error) {
	kept, known := s.keyOf(namespace)
	if s.secretsCached && known && kept.uid != "" {
		meta := Metadata(Ref{pin.Secret, namespace, keys.KeySecret})
		if err := s.cached.Get(ctx, client.ObjectKeyFromObject(meta), meta); err == nil && meta.UID == kept.uid {
			return kept.key, nil
		}
		// It was deleted or replaced, or the cache lags.
	}
	return s.readKey(ctx, namespace, s.makesKeys && ctx.Value(provisional{}) == nil)
}

func (s *Store) keyOf(namespace string) (namespaceKey, bool) {
	kept, ok := s.keys.Get(namespace)
	if !ok {
		return namespaceKey{}, false
	}
	return kept.(namespaceKey), true
}

// readKey reads the key from the API server, once for all who ask meanwhile.
func (s *Store) readKey(ctx context.Context, namespace string, make bool) (*content.Key, error) {
	found, err, _ := s.flights.Do(fmt.Sprintf("key %s %t", namespace, make), func() (any, error) {
		secret := &corev1.Secret{}
		err := s.live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: keys.KeySecret}, secret)
		if apierrors.IsNotFound(err) {
			return s.newKey(ctx, namespace, make)
		}
		if err != nil {
			return nil, unreadable(namespace, err)
		}
		return s.keepKey(secret)
	})
	if err != nil {
		return nil, err
	}
	return found.(*content.Key), nil
}

// newKey makes a key. Of several replicas that do so at once, one is the first, and all use its.
func (s *Store) newKey(ctx context.Context, namespace string, make bool) (*content.Key, error) {
	about, err := s.provisionalKey(namespace)
	if err != nil || !make {
		return about.key, err
	}
	immutable := true
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: keys.KeySecret},
		Type:       optin.KeyType, Immutable: &immutable, Data: map[string][]byte{keyField: about.secret},
	}
	err = s.writer.Create(ctx, secret, client.FieldOwner(keys.FieldManager))
	if apierrors.IsAlreadyExists(err) {
		err = s.live.Get(ctx, client.ObjectKeyFromObject(secret), secret)
	}
	if err != nil {
		return nil, unreadable(namespace, err)
	}
	return s.keepKey(secret)
}

// provisionalKey returns the key that this process would make for a namespace: the same one each time.
func (s *Store) provisionalKey(namespace string) (namespaceKey, error) {
	s.changesLock.Lock()
	defer s.changesLock.Unlock()
	if kept, ok := s.keyOf(namespace); ok && kept.uid == "" {
		return kept, nil
	}
	secret := make([]byte, content.KeySize)
	if _, err := rand.Read(secret); err != nil {
		return namespaceKey{}, err
	}
	key, err := content.NewKey(secret)
	about := namespaceKey{key: key, secret: secret}
	s.keys.Add(namespace, about)
	return about, err
}

// keepKey takes the key from its Secret. One that anyone could change is none of confrev's.
func (s *Store) keepKey(secret *corev1.Secret) (*content.Key, error) {
	key, err := content.NewKey(secret.Data[keyField])
	if err != nil || secret.Type != optin.KeyType || !isImmutable(secret) {
		return nil, &TerminalError{KeyUnreadable, fmt.Sprintf("secret/%s is not one that confrev made, so nothing that comes from Secrets "+
			"is pinned or rolled out in this namespace: delete it, and confrev makes another", keys.KeySecret)}
	}
	s.keys.Add(secret.Namespace, namespaceKey{key: key, uid: secret.UID})
	return key, nil
}

// unreadable is the error that a key cannot be read or made; a TerminalError if it is for want of a right.
func unreadable(namespace string, err error) error {
	if _, refused := confined(err); refused {
		return ExplainRefusal(err)
	}
	if apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return &TerminalError{KeyUnreadable, fmt.Sprintf("may not get or create secret/%s, the key of this namespace's hashes, so nothing that "+
			"comes from Secrets is pinned or rolled out here: give the rights on it", keys.KeySecret)}
	}
	return fmt.Errorf("read the key of namespace %s: %w", namespace, err)
}

// keyFor returns the key of a source's hashes: none for a ConfigMap.
func (s *Store) keyFor(ctx context.Context, kind pin.Kind, namespace string) (*content.Key, error) {
	if kind == pin.ConfigMap {
		return nil, nil
	}
	return s.Key(ctx, namespace)
}

// settleKey makes sure that a key with which a revision is about to be named is kept.
func (s *Store) settleKey(ctx context.Context, source Ref, name content.Hash) error {
	if source.Kind == pin.ConfigMap {
		return nil
	}
	if kept, ok := s.keyOf(source.Namespace); ok && kept.uid != "" && kept.key.Made(name) {
		return nil
	}
	key, err := s.readKey(ctx, source.Namespace, true)
	if err == nil && !key.Made(name) {
		return NewChanged("the key of namespace %s", source.Namespace)
	}
	return err
}
