package docs_test

import (
	"encoding/xml"
	"regexp"
	"strings"
	"testing"
)

// readmeLimit is what fits on one screen, with its picture. What is cut from it belongs on a page of docs.
const readmeLimit = 1000

func TestReadmeIsOneScreen(t *testing.T) {
	text := read(t, "README.md")
	if words := len(strings.Fields(text)); words > readmeLimit {
		t.Errorf("README.md has %d words, at most %d are allowed: move what is not for a first look to a page of docs", words, readmeLimit)
	}
	for _, needed := range []string{"](docs/images/", "\nmake demo ", "\nmake test ", "helm install confrev "} {
		if !strings.Contains(text, needed) {
			t.Errorf("README.md lacks %q", needed)
		}
	}
}

// Pictures that pages show describe themselves to those who cannot see them, and follow the color scheme of the reader.
func TestPicturesAreForEveryone(t *testing.T) {
	shown := map[string]bool{}
	for _, path := range markdown(t) {
		for _, match := range regexp.MustCompile(`!\[([^\]]*)\]\((?:[^)]*/)?([\w-]+\.svg)\)`).FindAllStringSubmatch(read(t, path), -1) {
			shown[match[2]] = true
			if len(strings.Fields(match[1])) < 5 {
				t.Errorf("%s shows %s and does not describe it", path, match[2])
			}
		}
	}
	if len(shown) < 4 {
		t.Errorf("found only %v: the test reads the pages wrongly", shown)
	}
	// `make dashboard` draws the dashboard.
	delete(shown, "dashboard.svg")
	for name := range shown {
		text := read(t, "docs/images/"+name)
		var picture struct {
			Role  string `xml:"role,attr"`
			Title string `xml:"title"`
			Desc  string `xml:"desc"`
		}
		if err := xml.Unmarshal([]byte(text), &picture); err != nil || picture.Role != "img" || picture.Title == "" || picture.Desc == "" {
			t.Errorf("docs/images/%s lacks role, title or desc: %+v, %v", name, picture, err)
		}
		if !strings.Contains(text, "prefers-color-scheme: dark") {
			t.Errorf("docs/images/%s has one color scheme only", name)
		}
	}
}
