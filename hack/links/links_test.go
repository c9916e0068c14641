package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestDeadLinksAreFound(t *testing.T) {
	pages := fstest.MapFS{
		"index.html": {Data: []byte(`<a href="/guide/a.html#there">a</a> <a href="./guide/">a folder</a> <a href="guide/a.html#gone">no anchor</a>
			<a href="/gone.html">no page</a> <a href="#main">here</a> <a href="#gone">not here</a> <main id="main"></main>
			<a href="https://github.com/confrev/confrev/blob/main/README.md#x">a file</a>
			<a href="https://github.com/confrev/confrev/blob/main/GONE.md">no file</a> <a href="https://example.com">elsewhere</a>`)},
		"guide/index.html": {Data: []byte(`<link rel="stylesheet" href="/style.css"><script src="https://example.com/x.js"></script>
			<img src="../gone.svg"> <img srcset="/style.css 1x, /gone.png 2x">`)},
		"guide/a.html": {Data: []byte(`<h2 id="there">There</h2> <a href="../index.html">back</a>`)},
		"style.css":    {},
	}
	s, err := load(pages)
	if err != nil {
		t.Fatal(err)
	}
	r := s.check(fstest.MapFS{"README.md": {}})
	want := []string{
		"guide/index.html links to ../gone.svg: there is no such file on the site",
		"guide/index.html links to /gone.png: there is no such file on the site",
		"guide/index.html links to https://example.com/x.js: the site must load nothing from elsewhere",
		"index.html links to #gone: the page has no such heading",
		"index.html links to /gone.html: there is no such file on the site",
		"index.html links to guide/a.html#gone: the page has no such heading",
		"index.html links to https://github.com/confrev/confrev/blob/main/GONE.md: the repository has no such file",
	}
	if got := strings.Join(r.problems, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("found\n%s", got)
	}
	if r.pages != 3 || r.links != 15 || r.anchors != 4 || r.repository != 2 || r.elsewhere != 1 || r.embedded != 4 {
		t.Errorf("counted %+v", r)
	}
}
