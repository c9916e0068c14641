package content_test

import (
	"bytes"
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/pin"
)

func keyOf(t interface{ Fatal(...any) }, letter byte) *content.Key {
	key, err := content.NewKey(bytes.Repeat([]byte{letter}, content.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

var (
	password = content.Content{Kind: pin.Secret, Type: "Opaque", Data: map[string][]byte{"pin": []byte("1234"), "again": []byte("1234")}}
	db       = pin.Source{Kind: pin.Secret, Name: "db"}
)

// Keyed hashes stand in pods, templates and labels, as unkeyed ones do: another form would restart workloads.
func TestGoldenKeyedHashes(t *testing.T) {
	key := keyOf(t, 'a')
	digests := key.Digests(db, password.Digests())
	got := fmt.Sprintln(key.Scheme(), key.Hash(db, password.Hash()), key.Sum(db, password.Digests().Sum(true, nil)), digests["pin"], digests["again"])
	const want = "k1-wal7hbs- k1-wal7hbs-atosaxdysafinm7enihscwtjvk7kzlfbs5bq6unvp6yolh77isaa k1-wal7hbs-sorpy45biflt2fjc e7oocetz3mv4hocx c7wjhkyinnw62fhn\n"
	if got != want {
		t.Errorf("got  %swant %s%s", got, want, keepNames)
	}
}

// Without the key, no one can compute what is published: not even who knows the content and all forms of unkeyed hashes.
func TestAKeyedHashDependsOnKeyObjectAndPurpose(t *testing.T) {
	a, b := keyOf(t, 'a'), keyOf(t, 'b')
	other, configMap := pin.Source{Kind: pin.Secret, Name: "web"}, pin.Source{Kind: pin.ConfigMap, Name: "db"}
	plain, sum := password.Hash(), password.Digests().Sum(true, nil)
	seen := map[string]string{}
	for name, hash := range map[string]string{
		"unkeyed":                          string(plain),
		"keyed":                            string(a.Hash(db, plain)),
		"another key":                      string(b.Hash(db, plain)),
		"another Secret":                   string(a.Hash(other, plain)),
		"another kind":                     string(a.Hash(configMap, plain)),
		"another content":                  string(a.Hash(db, tls.Hash())),
		"a sum":                            a.Sum(db, sum),
		"an unkeyed sum":                   sum,
		"for other purpose":                a.Sum(db, string(plain)),
		"a sum, another key":               b.Sum(db, sum),
		"a digest":                         a.Digests(db, password.Digests())["pin"],
		"an unkeyed digest":                password.Digests()["pin"],
		"the same value under another key": a.Digests(db, password.Digests())["again"],
		"a digest, another Secret":         a.Digests(other, password.Digests())["pin"],
	} {
		random := hash[strings.LastIndex(hash, "-")+1:][:16]
		if twin, taken := seen[random]; taken {
			t.Errorf("%s and %s are alike: %s", name, twin, hash)
		}
		seen[random] = name
	}
	if content.RevisionName("db", a.Hash(db, plain), 0)[3:] == content.RevisionName("web", a.Hash(other, plain), 0)[4:] {
		t.Error("the same content in two Secrets has the same suffix")
	}
	if content.RevisionName("db", plain, 0)[3:] != content.RevisionName("web", plain, 0)[4:] {
		t.Error("this test cannot fail: without a key the suffixes differ too")
	}
}

// Nil digests are unknown ones (plan.Revision), with a key and without.
func TestWithoutAKeyOrDigestsNothingChanges(t *testing.T) {
	var none *content.Key
	plain := password.Digests()
	if got := none.Digests(db, plain); !maps.Equal(got, plain) {
		t.Errorf("without a key, digests are %v, want %v", got, plain)
	}
	if got := keyOf(t, 'a').Digests(db, nil); got != nil {
		t.Errorf("unknown digests became %v", got)
	}
	if none.Hash(db, password.Hash()) != password.Hash() || none.Sum(db, "sum") != "sum" {
		t.Error("without a key, a hash or a sum is another")
	}
}

// A hash says what it was made with, and that says nothing else.
func TestAHashStatesItsVersionAndKey(t *testing.T) {
	a, b := keyOf(t, 'a'), keyOf(t, 'b')
	if a.Scheme() == b.Scheme() || (*content.Key)(nil).Scheme() != "" {
		t.Errorf("schemes: %q, %q", a.Scheme(), b.Scheme())
	}
	for text, want := range map[string]string{
		string(a.Hash(db, password.Hash())): a.Scheme(), b.Sum(db, "x"): b.Scheme(), string(password.Hash()): "",
		password.Digests().Sum(true, nil): "", "absent": "", "": "", "k1-abc-x": "", "k2-abcdefg-x": "", "xk1-abcdefg-x": "",
	} {
		if got := content.SchemeOf(text); got != want {
			t.Errorf("SchemeOf(%q) = %q, want %q", text, got, want)
		}
	}
	for hash, made := range map[content.Hash][3]bool{
		password.Hash(): {true, false, false}, a.Hash(db, password.Hash()): {false, true, false}, b.Hash(db, password.Hash()): {false, false, true},
		"": {false, false, false}, "k1": {false, false, false},
	} {
		if got := [3]bool{(*content.Key)(nil).Made(hash), a.Made(hash), b.Made(hash)}; got != made {
			t.Errorf("%s was made by none, a, b: %v", hash, got)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v %s", a, a, a, a); strings.Contains(text, "aaaaaaaa") || strings.Contains(text, "97") {
		t.Errorf("a key prints its secret: %s", text)
	}
}

func TestKeyedHashesHaveTheirForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key, err := content.NewKey(rapid.SliceOfN(rapid.Byte(), content.KeySize, content.KeySize).Draw(t, "secret"))
		if err != nil {
			t.Fatal(err)
		}
		source := pin.Source{Kind: pin.Secret, Name: drawName(t)}
		hash := key.Hash(source, password.Hash())
		if !content.IsHash(string(hash)) || len(validation.IsValidLabelValue(string(hash))) > 0 {
			t.Fatalf("%s is no label", hash)
		}
		checkNames(t, source.Name, hash)
		if _, err := pin.ParseHashes(pin.Set{source: {Revision: key.Sum(source, "x"), Number: 1}}.String()); err != nil {
			t.Fatal(err)
		}
		text, _ := key.Digests(source, password.Digests()).Text()
		if _, err := content.ParseDigests(text); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAKeyIsOfOneSize(t *testing.T) {
	for _, size := range []int{0, 1, content.KeySize - 1, content.KeySize + 1} {
		if key, err := content.NewKey(make([]byte, size)); err == nil {
			t.Errorf("%d bytes make %v", size, key)
		}
	}
}
