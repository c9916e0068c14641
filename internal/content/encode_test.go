package content

import (
	"bytes"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"confrev.io/confrev/internal/pin"
)

func encoded(c Content) string {
	var b bytes.Buffer
	c.encode(&b)
	return b.String()
}

func bytesOf(data map[string]string) map[string][]byte {
	out := map[string][]byte{}
	for key, value := range data {
		out[key] = []byte(value)
	}
	return out
}

// Rule 8, and the trap of Reloader, which joins k=v; and so confuses these.
func TestDifferentContentsNeverEncodeAlike(t *testing.T) {
	type data = map[string]string
	tests := map[string]struct{ a, b Content }{
		"a value that looks like the next key":    {Content{Data: bytesOf(data{"a": "1;b=2"})}, Content{Data: bytesOf(data{"a": "1", "b": "2"})}},
		"an equals sign in the key or the value":  {Content{Data: bytesOf(data{"a": "b=c"})}, Content{Data: bytesOf(data{"a=b": "c"})}},
		"a newline in the value":                  {Content{Data: bytesOf(data{"a": "1\nb: 2"})}, Content{Data: bytesOf(data{"a": "1", "b": "2"})}},
		"a NUL at the end":                        {Content{Data: bytesOf(data{"a": "1\x00"})}, Content{Data: bytesOf(data{"a": "1"})}},
		"an empty value and no key":               {Content{Data: bytesOf(data{"a": ""})}, Content{}},
		"an empty key and no key":                 {Content{Data: bytesOf(data{"": ""})}, Content{}},
		"the empty key and the empty value":       {Content{Data: bytesOf(data{"": "a"})}, Content{Data: bytesOf(data{"a": ""})}},
		"values that are swapped":                 {Content{Data: bytesOf(data{"a": "1", "b": "2"})}, Content{Data: bytesOf(data{"a": "2", "b": "1"})}},
		"a character from the key to the value":   {Content{Data: bytesOf(data{"ab": "c"})}, Content{Data: bytesOf(data{"a": "bc"})}},
		"data and binaryData":                     {Content{Data: bytesOf(data{"a": "1"})}, Content{BinaryData: bytesOf(data{"a": "1"})}},
		"keys divided otherwise among the two":    {Content{Data: bytesOf(data{"a": "", "b": ""})}, Content{Data: bytesOf(data{"a": ""}), BinaryData: bytesOf(data{"b": ""})}},
		"a ConfigMap and a Secret":                {Content{Kind: pin.ConfigMap, Data: bytesOf(data{"a": "1"})}, Content{Kind: pin.Secret, Data: bytesOf(data{"a": "1"})}},
		"Secrets of two types":                    {Content{Kind: pin.Secret, Type: "Opaque"}, Content{Kind: pin.Secret, Type: "kubernetes.io/tls"}},
		"a type that looks like data":             {Content{Kind: pin.Secret, Type: "\x01\x01a\x011"}, Content{Kind: pin.Secret, Data: bytesOf(data{"a": "1"})}},
		"bytes that are not UTF-8":                {Content{BinaryData: bytesOf(data{"a": "\xff"})}, Content{BinaryData: bytesOf(data{"a": "\xfe"})}},
		"values of 127 and 128 bytes, by a byte":  {Content{Data: bytesOf(data{"a": string(make([]byte, 127))})}, Content{Data: bytesOf(data{"a": string(make([]byte, 128))})}},
		"a value that holds an encoded key":       {Content{Data: bytesOf(data{"a": "\x01b\x011"})}, Content{Data: bytesOf(data{"a": "", "b": "1"})}},
		"a value of one key that ends in another": {Content{Data: bytesOf(data{"a": "x", "b": "yz"})}, Content{Data: bytesOf(data{"a": "xy", "b": "z"})}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if encoded(test.a) == encoded(test.b) {
				t.Errorf("both encode as %q", encoded(test.a))
			}
			if test.a.Hash() == test.b.Hash() {
				t.Errorf("both hash as %s", test.a.Hash())
			}
			if same(test.a, test.b) || same(test.b, test.a) {
				t.Error("they are Equal")
			}
		})
	}
}

func TestNilAndEmptyAreAlike(t *testing.T) {
	tests := map[string]struct{ a, b Content }{
		"maps": {
			Content{Kind: pin.ConfigMap},
			Content{Kind: pin.ConfigMap, Data: map[string][]byte{}, BinaryData: map[string][]byte{}},
		},
		"values": {
			Content{Kind: pin.Secret, Data: map[string][]byte{"a": nil}},
			Content{Kind: pin.Secret, Data: map[string][]byte{"a": {}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if !same(test.a, test.b) || encoded(test.a) != encoded(test.b) || test.a.Hash() != test.b.Hash() {
				t.Errorf("%q and %q differ", encoded(test.a), encoded(test.b))
			}
		})
	}
}

// drawContent draws from few and hostile parts, so that two draws are often almost equal.
func drawContent(t *rapid.T) Content {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{"", "a", "b", "=", ";", "\n", "\x00", "a=b", "a=b;b=", "\x01", "\x01a\x01b", "\xff\xfe", "ab"}),
		rapid.StringN(0, 3, -1),
	)
	value := rapid.Map(part, func(s string) []byte { return []byte(s) })
	section := rapid.OneOf(rapid.Just[map[string][]byte](nil), rapid.MapOfN(part, value, 0, 3))
	return Content{
		Kind:       rapid.SampledFrom([]pin.Kind{pin.ConfigMap, pin.Secret}).Draw(t, "kind"),
		Type:       rapid.SampledFrom([]string{"", "Opaque", "a"}).Draw(t, "type"),
		Data:       section.Draw(t, "data"),
		BinaryData: section.Draw(t, "binaryData"),
	}
}

// mutate draws a content that is the same, or different in one thing.
func mutate(t *rapid.T, c Content) Content {
	c.Data, c.BinaryData = maps.Clone(c.Data), maps.Clone(c.BinaryData)
	switch rapid.IntRange(0, 4).Draw(t, "change") {
	case 0:
		c.Data, c.BinaryData = c.BinaryData, c.Data
	case 1:
		for key := range c.Data {
			c.Data[key] = append([]byte("="), c.Data[key]...)
		}
	case 2:
		for key, value := range c.Data {
			delete(c.Data, key)
			c.Data[key+"="] = value
		}
	case 3:
		c.Type += "a"
	}
	return c
}

func TestContentsEncodeAlikeIfAndOnlyIfTheyAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawContent(t)
		b := drawContent(t)
		if rapid.Bool().Draw(t, "near") {
			b = mutate(t, a)
		}
		if alike := encoded(a) == encoded(b); alike != same(a, b) {
			t.Fatalf("encoded alike: %v, Equal: %v\n%q\n%q", alike, same(a, b), a, b)
		}
		if same(a, b) != same(b, a) {
			t.Fatalf("Equal is not symmetric: %q, %q", a, b)
		}
		if (a.Hash() == b.Hash()) != same(a, b) {
			t.Fatalf("hashes %s, %s of %q, %q", a.Hash(), b.Hash(), a, b)
		}
	})
}

func TestTheOrderOfKeysNeverMatters(t *testing.T) {
	want := ""
	for i := range 50 {
		// Two maps with the same pairs, filled in different orders, are walked in random orders.
		data := map[string][]byte{}
		for j := range 20 {
			key := string(rune('a' + (i+j)%20))
			data[key] = []byte(key)
		}
		got := encoded(Content{Kind: pin.ConfigMap, Data: data, BinaryData: data})
		if want == "" {
			want = got
		}
		if got != want {
			t.Fatalf("got %q, before %q", got, want)
		}
	}
}

// decode reads what encode writes. That it can be written at all shows that nothing is lost; FuzzEncode runs it.
func decode(t *testing.T, text string) Content {
	t.Helper()
	number := func() int {
		n, shift := 0, 0
		for {
			b := text[0]
			text = text[1:]
			n |= int(b&0x7f) << shift
			if b < 0x80 {
				return n
			}
			shift += 7
		}
	}
	next := func() string {
		n := number()
		s := text[:n]
		text = text[n:]
		return s
	}
	section := func() map[string][]byte {
		out := map[string][]byte{}
		for range number() {
			key := next()
			out[key] = []byte(next())
		}
		return out
	}
	if version := next(); version != hashVersion {
		t.Fatalf("version %q", version)
	}
	c := Content{Kind: pin.Kind(next()), Type: next()}
	c.Data = section()
	c.BinaryData = section()
	if text != "" {
		t.Fatalf("%q is left over", text)
	}
	return c
}

// FuzzEncode checks that the encoding can be read back, so no two contents share one.
func FuzzEncode(f *testing.F) {
	f.Add("configmap", "", "a", "1", "b", "2", true)
	f.Add("secret", "Opaque", "a=b;", "c\n\x00", "", "", false)
	f.Add("configmap", "", "a", string(make([]byte, 300)), "a", "\xff", true)
	f.Fuzz(func(t *testing.T, kind, secretType, key1, value1, key2, value2 string, binary bool) {
		c := Content{Kind: pin.Kind(kind), Type: secretType, Data: bytesOf(map[string]string{key1: value1})}
		other := map[string][]byte{key2: []byte(value2)}
		if binary {
			c.BinaryData = other
		} else {
			maps.Copy(c.Data, other)
		}
		if got := decode(t, encoded(c)); !same(got, c) {
			t.Errorf("%q reads back as %q", c, got)
		}
	})
}

// same reports whether two contents are the same to every pod.
func same(a, b Content) bool {
	return a.Kind == b.Kind && a.Type == b.Type &&
		maps.EqualFunc(a.Data, b.Data, bytes.Equal) && maps.EqualFunc(a.BinaryData, b.BinaryData, bytes.Equal)
}
