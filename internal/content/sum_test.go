package content_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/pin"
)

func TestFromSecretTakesTypeAndDataAndNothingElse(t *testing.T) {
	immutable := true
	bare := &corev1.Secret{Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": []byte("c"), "tls.key": []byte("k")}}
	dressed := bare.DeepCopy()
	dressed.ObjectMeta = metav1.ObjectMeta{Name: "db", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}}
	dressed.Immutable = &immutable
	for name, secret := range map[string]*corev1.Secret{"bare": bare, "dressed": dressed} {
		if diff := cmp.Diff(tls, content.FromSecret(secret)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	hash := content.FromSecret(bare).Hash()
	other := bare.DeepCopy()
	other.Type = corev1.SecretTypeOpaque
	configMap := content.FromConfigMap(&corev1.ConfigMap{Data: map[string]string{"tls.crt": "c", "tls.key": "k"}})
	if content.FromSecret(other).Hash() == hash || configMap.Hash() == hash {
		t.Error("another type or kind has the same hash (rule 8)")
	}
	if got := content.FromSecret(&corev1.Secret{}); got.Kind != pin.Secret || got.Hash() == (content.Content{Kind: pin.ConfigMap}).Hash() {
		t.Errorf("an empty Secret is %+v", got)
	}
}

// keepSums is what a changed golden value must be answered with.
const keepSums = "\nThe form of these hashes must never change: they stand in pod templates, so every workload in mode restart would roll."

func TestGoldenSums(t *testing.T) {
	tests := map[string]struct {
		content content.Content
		all     bool
		keys    []string
		want    string
	}{
		"all of plain data":             {plain, true, nil, "iwvfy2fib5qnn43h"},
		"one key of it":                 {plain, false, []string{"a"}, "2qst2r2igp73cvvk"},
		"all of data and binaryData":    {mixed, true, nil, "wsyegmak5vprnshs"},
		"all of an empty ConfigMap":     {empty, true, nil, "4oymiquy7qobjgx3"},
		"all of a TLS Secret":           {tls, true, nil, "fv4mv6wyfvxwqaro"},
		"an absent key of an empty one": {empty, false, []string{"a"}, "4oymiquy7qobjgx3"},
		"a key and an absent one":       {plain, false, []string{"a", "zz"}, "2qst2r2igp73cvvk"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.content.Digests().Sum(test.all, test.keys); got != test.want {
				t.Errorf("Sum = %s, was %s%s", got, test.want, keepSums)
			}
		})
	}
}

func TestSumIsOverTheKeysThatAreUsed(t *testing.T) {
	digests := func(pairs ...string) content.Digests {
		data := map[string][]byte{}
		for i := 0; i < len(pairs); i += 2 {
			data[pairs[i]] = []byte(pairs[i+1])
		}
		return content.Content{Kind: pin.ConfigMap, Data: data}.Digests()
	}
	used := []string{"a", "b"}
	tests := map[string]struct {
		one, other content.Digests
		same       bool // with the used keys
		sameAll    bool
	}{
		"nothing changed":               {digests("a", "1", "b", "2"), digests("a", "1", "b", "2"), true, true},
		"a used key changed":            {digests("a", "1"), digests("a", "2"), false, false},
		"another key changed":           {digests("a", "1", "c", "1"), digests("a", "1", "c", "2"), true, false},
		"another key came":              {digests("a", "1"), digests("a", "1", "c", "2"), true, false},
		"a used key came":               {digests("a", "1"), digests("a", "1", "b", "2"), false, false},
		"absent is not empty":           {digests("a", "1"), digests("a", "1", "b", ""), false, false},
		"values changed places":         {digests("a", "1", "b", "2"), digests("a", "2", "b", "1"), false, false},
		"a value moved to another key":  {digests("a", "1"), digests("b", "1"), false, false},
		"nothing and nothing":           {digests(), nil, true, true},
		"nothing and something":         {nil, digests("a", ""), false, false},
		"the same value as binary data": {digests("a", "1"), content.Content{BinaryData: map[string][]byte{"a": []byte("1")}}.Digests(), false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if same := test.one.Sum(false, used) == test.other.Sum(false, used); same != test.same {
				t.Errorf("the same with the used keys: %v", same)
			}
			if same := test.one.Sum(true, used) == test.other.Sum(true, used); same != test.sameAll {
				t.Errorf("the same with all keys: %v", same)
			}
		})
	}
}

// Sum agrees with SameKeys, by which pins are judged; and it can stand in the annotation of hashes.
func TestSumsAreAlikeIfAndOnlyIfTheUsedKeysAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		data := rapid.Custom(func(t *rapid.T) content.Digests {
			values := rapid.MapOf(key, rapid.SampledFrom([]string{"", "1", "2"})).Draw(t, "data")
			c := content.Content{Data: map[string][]byte{}}
			for key, value := range values {
				c.Data[key] = []byte(value)
			}
			return c.Digests()
		})
		one, other := data.Draw(t, "one"), data.Draw(t, "other")
		var used []string
		for _, k := range []string{"a", "b", "c", "d"} {
			if rapid.Bool().Draw(t, "uses "+k) {
				used = append(used, k)
			}
		}
		if same := one.Sum(false, used) == other.Sum(false, used); same != one.SameKeys(other, used) {
			t.Fatalf("the sums are the same: %v", same)
		}
		source := pin.Source{Kind: pin.ConfigMap, Name: "app"}
		text := pin.Set{source: {Revision: one.Sum(true, nil), Number: 1}}.String()
		if _, err := pin.ParseHashes(text); err != nil {
			t.Fatal(err)
		}
	})
}
