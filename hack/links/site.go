package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// page is what one file of HTML names, and what others can name in it.
type page struct {
	anchors map[string]bool
	links   []link
}

// link is an address in a page. A browser loads what is embedded without being asked.
type link struct {
	address  string
	embedded bool
}

type site struct {
	files fs.FS
	pages map[string]page
}

// report is what was checked, and what was found.
type report struct {
	pages, links, distinct, anchors, embedded, repository, elsewhere int
	problems                                                         []string
}

func (r report) String() string {
	return fmt.Sprintf("links: %d pages with %d links (%d different ones): %d with an anchor, %d to pictures, scripts and styles, "+
		"%d to files of the repository, %d elsewhere (not checked); %d are dead",
		r.pages, r.links, r.distinct, r.anchors, r.embedded, r.repository, r.elsewhere, len(r.problems))
}

// load reads all pages of a site.
func load(files fs.FS) (site, error) {
	s := site{files: files, pages: map[string]page{}}
	return s, fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(name) != ".html" {
			return err
		}
		file, err := files.Open(name)
		if err != nil {
			return err
		}
		root, err := html.Parse(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		s.pages[name] = read(root)
		return nil
	})
}

// read collects the links and the anchors of a page.
func read(root *html.Node) page {
	p := page{anchors: map[string]bool{}}
	for node := range root.Descendants() {
		if node.Type != html.ElementNode {
			continue
		}
		loads := false
		for _, attribute := range node.Attr {
			loads = loads || attribute.Key == "rel" && slices.Contains([]string{"stylesheet", "modulepreload", "preload", "icon"}, attribute.Val)
		}
		for _, attribute := range node.Attr {
			switch attribute.Key {
			case "id", "name":
				p.anchors[attribute.Val] = true
			case "href":
				p.links = append(p.links, link{attribute.Val, node.Data == "link" && loads})
			case "src", "poster", "data":
				p.links = append(p.links, link{attribute.Val, true})
			case "srcset":
				for candidate := range strings.SplitSeq(attribute.Val, ",") {
					if fields := strings.Fields(candidate); len(fields) > 0 {
						p.links = append(p.links, link{fields[0], true})
					}
				}
			}
		}
	}
	return p
}

// check reports which links are dead. The tree is that of the repository.
func (s site) check(tree fs.FS) report {
	r := report{pages: len(s.pages)}
	distinct := map[string]bool{}
	for name, page := range s.pages {
		for _, link := range page.links {
			r.links++
			target, problem := s.follow(name, link, tree, &r)
			distinct[target] = true
			if problem != "" {
				r.problems = append(r.problems, fmt.Sprintf("%s links to %s: %s", name, link.address, problem))
			}
		}
	}
	r.distinct = len(distinct)
	slices.SortFunc(r.problems, cmp.Compare)
	return r
}

// follow returns what a link of a page points to, and what is wrong with it, or nothing.
func (s site) follow(from string, link link, tree fs.FS, r *report) (target, problem string) {
	to, err := url.Parse(link.address)
	if err != nil {
		return link.address, err.Error()
	}
	switch {
	case to.Scheme == "data" || to.Scheme == "mailto":
		return link.address, ""
	case to.Host != "" && link.embedded:
		return link.address, "the site must load nothing from elsewhere"
	case to.Host != "":
		return link.address, inRepository(link.address, tree, r)
	}
	if link.embedded {
		r.embedded++
	}
	target = from
	switch {
	case path.IsAbs(to.Path):
		target = strings.TrimPrefix(path.Clean(to.Path), "/")
	case to.Path != "":
		target = path.Join(path.Dir(from), to.Path)
	}
	if target == "" || strings.HasSuffix(to.Path, "/") {
		target = path.Join(target, "index.html")
	}
	if _, err := fs.Stat(s.files, target); err != nil {
		return target, "there is no such file on the site"
	}
	if to.Fragment == "" {
		return target, ""
	}
	r.anchors++
	if found, isPage := s.pages[target]; isPage && !found.anchors[to.Fragment] {
		return target + "#" + to.Fragment, "the page has no such heading"
	}
	return target + "#" + to.Fragment, ""
}

// inRepository checks a link to a file of the repository's main branch. Other links that leave the site are only counted.
func inRepository(address string, tree fs.FS, r *report) string {
	file, found := strings.CutPrefix(address, repository+"blob/main/")
	if !found {
		// This opens an editor for the page.
		file, found = strings.CutPrefix(address, repository+"edit/main/")
	}
	if !found {
		r.elsewhere++
		return ""
	}
	r.repository++
	file, _, _ = strings.Cut(file, "#")
	if _, err := fs.Stat(tree, file); err != nil {
		return "the repository has no such file"
	}
	return ""
}
