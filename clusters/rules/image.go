// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"

	"github.com/distribution/reference"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/utils/lru"
)

const (
	functionSameImage = "sameImage"
	sameImageCost     = 100
)

// sameImageFunction compares the name of an image that runs with that of one that is
// asked for. Runtimes write names out: what a pod asks for as nginx:1.25 they report as
// docker.io/library/nginx:1.25. With the identifier that they report beside it, an image
// that is asked for by its digest is known by that.
func sameImageFunction() cel.EnvOption {
	text := func(v ref.Val) string { return string(v.(types.String)) }
	answer := func(same bool, problem string) ref.Val {
		if problem != "" {
			return types.NewErr("sameImage: %s", problem)
		}
		return types.Bool(same)
	}
	return cel.Function(functionSameImage,
		cel.Overload("same_image_string_string", []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType,
			cel.BinaryBinding(func(a, b ref.Val) ref.Val { return answer(sameImage(text(a), "", text(b))) })),
		cel.Overload("same_image_string_string_string", []*cel.Type{cel.StringType, cel.StringType, cel.StringType}, cel.BoolType,
			cel.FunctionBinding(func(args ...ref.Val) ref.Val { return answer(sameImage(text(args[0]), text(args[1]), text(args[2]))) })))
}

// sameImage reports whether what runs is what is asked for: the same repository, and the
// same digest where both have one, else the same tag. id is what a runtime says of the
// image beside its name, with its digest; it may be empty. problem says why they cannot
// be compared: one is no reference, or an identifier that names no repository.
func sameImage(runs, id, wanted string) (same bool, problem string) {
	if wanted != "" && runs == wanted {
		return true, ""
	}
	want := imageNamed(wanted)
	if want.digest != "" {
		if is := imageNamed(id); is.digest != "" && is.problem == "" {
			return want.sameRepository(is) && want.digest == is.digest, want.problem
		}
	}
	is := imageNamed(runs)
	switch {
	case want.problem != "":
		return false, want.problem
	case is.problem != "":
		return false, is.problem
	case !want.sameRepository(is):
		return false, ""
	case want.digest != "" && is.digest != "":
		return want.digest == is.digest, ""
	case want.tag != "" && is.tag != "":
		return want.tag == is.tag, ""
	}
	return false, "a tag and a digest cannot be compared; ask for sameImage(s.image, s.imageID, c.image)"
}

// image is a reference to an image.
type image struct {
	// repository is written out, with its registry. local is that of an image that was
	// built where it runs, for a name without a registry; "" is none.
	repository, local string
	tag, digest       string
	problem           string
}

func (i *image) sameRepository(other *image) bool {
	return i.repository == other.repository || i.local != "" && i.local == other.repository || other.local == i.repository
}

// images caches the result of parseImage by name, which takes longer than the rest of an
// evaluation: pods have few names between them. A name that can be read is short.
var images = lru.New(4096)

func imageNamed(text string) *image {
	if i, ok := images.Get(text); ok {
		return i.(*image)
	}
	i := parseImage(text)
	if i.problem == "" {
		images.Add(strings.Clone(text), &i)
	}
	return &i
}

// namesNoRegistry reports whether a reference begins with the path of its repository.
func namesNoRegistry(text string) bool {
	first, _, slash := strings.Cut(text, "/")
	return !slash || first != "localhost" && !strings.ContainsAny(first, ".:") && strings.ToLower(first) == first
}

// parseImage reads a reference and writes it out.
func parseImage(text string) (i image) {
	text = strings.TrimPrefix(text, "docker-pullable://") // an identifier, of Docker
	switch {
	case text == "":
		return image{problem: "the name of the image is empty"}
	case strings.HasPrefix(text, "sha256:"):
		return image{problem: "an image is named by its identifier alone"}
	}
	named, err := reference.ParseNormalizedNamed(text)
	if err != nil {
		return image{problem: "not the name of an image"}
	}
	i.repository = named.Name()
	if namesNoRegistry(text) {
		i.local = "localhost/" + reference.FamiliarName(named)
	}
	if pinned, is := named.(reference.Digested); is {
		i.digest = pinned.Digest().String()
	}
	if tagged, is := named.(reference.Tagged); is {
		i.tag = tagged.Tag()
	} else if i.digest == "" {
		i.tag = "latest"
	}
	return i
}
