package rollout

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/podspec"
)

// enforceMountableSecrets makes the API server refuse pods that refer to Secrets which their service account does not list. It
// looks after pins are resolved, and no account lists revisions. It is deprecated, and still enforced by Kubernetes 1.36:
// https://kubernetes.io/docs/concepts/security/service-accounts/#enforce-mountable-secrets
const enforceMountableSecrets = "kubernetes.io/enforce-mountable-secrets"

// Accounts knows which service accounts enforce their mountable Secrets.
type Accounts struct {
	live client.Reader
	now  func() time.Time
	// read has answers that are not old, so that the many workloads of one account cost one request.
	read *lru.Cache
}

// accountsFresh is how long an answer about a service account counts.
const accountsFresh = 10 * time.Second

type accountAnswer struct {
	at       time.Time
	enforces bool
}

// NewAccounts returns Accounts that reads service accounts from the API server.
func NewAccounts(live client.Reader, now func() time.Time) *Accounts {
	return &Accounts{live: live, now: now, read: lru.New(1000)}
}

// enforces reports whether the pods of an account may use none but the Secrets that it lists. Without the right to look, it is
// taken not to.
func (a *Accounts) enforces(ctx context.Context, name types.NamespacedName) (bool, error) {
	if kept, ok := a.read.Get(name); ok && a.now().Sub(kept.(accountAnswer).at) < accountsFresh {
		return kept.(accountAnswer).enforces, nil
	}
	account := metadata.New(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	err := a.live.Get(ctx, name, account)
	switch {
	case apierrors.IsForbidden(err):
		log.FromContext(ctx).Info("cannot see whether a service account limits its pods' Secrets", "serviceAccount", name.String(), "because", err.Error())
	case err != nil && !apierrors.IsNotFound(err):
		return false, fmt.Errorf("look up service account %s: %w", name, err)
	}
	// What cannot be parsed is not enforced, as the API server sees it.
	enforces, _ := strconv.ParseBool(account.Annotations[enforceMountableSecrets])
	a.read.Add(name, accountAnswer{a.now(), enforces})
	return enforces, nil
}

// mountable returns the uses that the pods' service account lets them have revisions of.
func (r *Engine) mountable(ctx context.Context, seen *observed, uses []podspec.Use) ([]podspec.Use, error) {
	isSecret := func(use podspec.Use) bool { return use.Kind == pin.Secret }
	if !slices.ContainsFunc(uses, isSecret) {
		return uses, nil
	}
	spec := &seen.template.Spec
	name := cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount, "default")
	enforces, err := r.Accounts.enforces(ctx, types.NamespacedName{Namespace: seen.namespace, Name: name})
	if err != nil || !enforces {
		return uses, err
	}
	seen.say(notice.SecretsLimited, "service account %s has annotation %s: its pods may use none but the Secrets that it lists, so not the "+
		"revisions of any; Secrets are not pinned", name, enforceMountableSecrets)
	return slices.DeleteFunc(slices.Clone(uses), isSecret), nil
}
