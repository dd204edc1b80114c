// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"time"
)

// The parts of SPDX 2.3 that a Go binary needs: one package for each module that is linked into it.
type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []component    `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type component struct {
	ID        string      `json:"SPDXID"`
	Name      string      `json:"name"`
	Version   string      `json:"versionInfo"`
	Download  string      `json:"downloadLocation"`
	Analyzed  bool        `json:"filesAnalyzed"`
	License   string      `json:"licenseConcluded"`
	Declared  string      `json:"licenseDeclared"`
	Copyright string      `json:"copyrightText"`
	Refs      []reference `json:"externalRefs,omitempty"`
	Checksums []checksum  `json:"checksums,omitempty"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const unknown = "NOASSERTION"

// spdx is the bill of materials of a binary, as the binary itself tells it.
func (r release) spdx(arch, binary string) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	const main = "SPDXRef-Package-main"
	d := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: "tributary-linux-" + arch,
		Namespace: "https://tributary.dev/spdx/" + hex.EncodeToString(sum[:]),
		Creation:  creation{Created: r.made.Format(time.RFC3339), Creators: []string{"Tool: deploy/image"}},
		Packages: []component{
			{
				ID: main, Name: info.Main.Path, Version: r.version, Download: unknown, License: "Apache-2.0", Declared: "Apache-2.0", Copyright: unknown,
				Checksums: []checksum{{"SHA256", hex.EncodeToString(sum[:])}}, Refs: goModule(info.Main.Path, r.version),
			},
			{
				ID: "SPDXRef-Package-go", Name: "go", Version: info.GoVersion, Download: unknown, License: "BSD-3-Clause", Declared: "BSD-3-Clause", Copyright: unknown,
			},
		},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", main}, {main, "DEPENDS_ON", "SPDXRef-Package-go"}},
	}
	for i, module := range info.Deps {
		d.add(main, fmt.Sprintf("SPDXRef-Package-%d", i), module)
	}
	return json.MarshalIndent(d, "", " ")
}

func (d *document) add(main, id string, module *debug.Module) {
	if module.Replace != nil {
		module = module.Replace
	}
	d.Packages = append(d.Packages, component{
		ID: id, Name: module.Path, Version: module.Version, Download: unknown, License: unknown, Declared: unknown, Copyright: unknown,
		Refs: goModule(module.Path, module.Version),
	})
	d.Relationships = append(d.Relationships, relationship{main, "DEPENDS_ON", id})
}

func goModule(path, version string) []reference {
	return []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}}
}
