package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// inform writes the bill of materials of a program to a file of its artifact's name, and returns the licenses and notices of what it
// contains.
func (r release) inform(ctx context.Context, name, file string) (licenses []byte, err error) {
	contains, err := r.contains(ctx, file)
	if err != nil {
		return nil, err
	}
	bill, err := r.bill(name, file, contains)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.MkdirAll(r.out, 0o755), os.WriteFile(filepath.Join(r.out, name+".spdx.json"), bill, 0o644)); err != nil {
		return nil, err
	}
	return attribution(contains)
}

// bill returns the bill of materials of a program, in SPDX's JSON: the program, and the modules that it contains. name is that of the
// artifact that the program is in.
func (r release) bill(name, file string, contains []dependency) ([]byte, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	checksum := hex.EncodeToString(sum[:])
	main := &v2_3.Package{
		PackageName: name, PackageSPDXIdentifier: "program", PackageVersion: r.version, PrimaryPackagePurpose: "APPLICATION",
		PackageDownloadLocation: "https://github.com/confrev/confrev", PackageLicenseConcluded: "Apache-2.0", PackageLicenseDeclared: "Apache-2.0",
		PackageCopyrightText: "NOASSERTION",
		PackageChecksums:     []common.Checksum{{Algorithm: common.SHA256, Value: checksum}},
	}
	document := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		// Unique, and the same for the same program.
		DocumentNamespace: "https://confrev.io/spdx/" + name + "-" + checksum,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "confrev-hack-release"}},
			Created:  r.created.UTC().Format(time.RFC3339),
		},
		Packages: []*v2_3.Package{main},
		Relationships: []*v2_3.Relationship{{
			RefA: common.MakeDocElementID("", "DOCUMENT"), RefB: common.MakeDocElementID("", "program"), Relationship: "DESCRIBES",
		}},
	}
	for i, d := range contains {
		id := "module-" + strconv.Itoa(i)
		license := strings.Join(d.licenses, " AND ")
		document.Packages = append(document.Packages, &v2_3.Package{
			PackageName: d.path, PackageSPDXIdentifier: common.ElementID(id), PackageVersion: d.version, PrimaryPackagePurpose: "LIBRARY",
			PackageDownloadLocation: "NOASSERTION", PackageLicenseConcluded: license, PackageLicenseDeclared: license, PackageCopyrightText: "NOASSERTION",
			PackageExternalReferences: []*v2_3.PackageExternalReference{{
				Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
				Locator: fmt.Sprintf("pkg:golang/%s@%s", d.path, d.version),
			}},
		})
		document.Relationships = append(document.Relationships, &v2_3.Relationship{
			RefA: common.MakeDocElementID("", "program"), RefB: common.MakeDocElementID("", id), Relationship: "CONTAINS",
		})
	}
	var out bytes.Buffer
	err = json.Write(document, &out, json.Indent(" "))
	return out.Bytes(), err
}
