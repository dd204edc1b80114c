// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"

	"github.com/distribution/reference"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
)

const functionSameImage = "sameImage"

// sameImageFunction compares two names of images. Runtimes write names out: what a pod
// asks for as nginx:1.25 they report as docker.io/library/nginx:1.25.
func sameImageFunction() cel.EnvOption {
	return cel.Function(functionSameImage, cel.Overload("same_image_string_string", []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType,
		cel.BinaryBinding(func(a, b ref.Val) ref.Val {
			same, err := SameImage(string(a.(types.String)), string(b.(types.String)))
			if err != "" {
				return types.NewErr("sameImage: %s", err)
			}
			return types.Bool(same)
		})))
}

// SameImage reports whether two references name one image: the same repository, and
// the same digest where both have one, else the same tag. It says why they cannot be
// compared: one is no reference, or an identifier that names no repository, as some
// runtimes report.
func SameImage(a, b string) (same bool, problem string) {
	if a == b && a != "" {
		return true, ""
	}
	x, problem := parseImage(a)
	if problem != "" {
		return false, problem
	}
	y, problem := parseImage(b)
	if problem != "" {
		return false, problem
	}
	if x.Name() != y.Name() {
		return false, ""
	}
	digestX, pinnedX := x.(reference.Digested)
	digestY, pinnedY := y.(reference.Digested)
	if pinnedX && pinnedY {
		return digestX.Digest() == digestY.Digest(), ""
	}
	tagX, namedX := x.(reference.Tagged)
	tagY, namedY := y.(reference.Tagged)
	switch {
	case namedX && namedY:
		return tagX.Tag() == tagY.Tag(), ""
	case pinnedX || pinnedY:
		return false, "a tag and a digest cannot be compared"
	}
	return true, ""
}

// parseImage reads a reference and writes it out: registry, repository, tag.
func parseImage(text string) (reference.Named, string) {
	if text == "" {
		return nil, "the name of the image is empty"
	}
	if strings.HasPrefix(text, "sha256:") {
		return nil, "an image is named by its identifier alone"
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return nil, "not the name of an image"
	}
	if _, pinned := named.(reference.Digested); pinned {
		return named, ""
	}
	return reference.TagNameOnly(named), ""
}
