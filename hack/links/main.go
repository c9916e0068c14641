// Command links checks the links of the documentation site that `make docs` built: every page, anchor, picture, script and style that
// a page names has to be on the site, and every file of the repository that it names has to be in the tree.
//
//	go run ./hack/links SITE
package main

import (
	"fmt"
	"os"
)

// repository is where links to files of this repository point.
const repository = "https://github.com/confrev/confrev/"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: links SITE")
		os.Exit(2)
	}
	site, err := load(os.DirFS(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "hack/links:", err)
		os.Exit(2)
	}
	report := site.check(os.DirFS("."))
	for _, problem := range report.problems {
		fmt.Println(problem)
	}
	fmt.Println(report)
	if len(report.problems) > 0 || report.pages == 0 {
		os.Exit(1)
	}
}
