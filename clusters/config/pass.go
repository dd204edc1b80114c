// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"path"
	"slices"
	"strings"
)

// matchesAny reports whether a name matches one of some valid globs.
func matchesAny(globs []string, name string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		matched, err := path.Match(glob, name)
		return err == nil && matched
	})
}

// trackers are the keys by which tools know what is theirs: a copy of one makes the
// tool adopt the replica, then change or prune it. An entry that ends with a slash
// stands for all keys of that domain and of the domains below it.
var trackers = []string{
	"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "applyset.kubernetes.io/", // kubectl apply --applyset
	"argocd.argoproj.io/",
	"fluxcd.io/",                // of which kustomize., helm. and source.toolkit
	"helm.sh/", "meta.helm.sh/", // chart, hook, resource-policy; release-name, release-namespace
	"config.k8s.io/", "kustomize.config.k8s.io/", "cli-utils.sigs.k8s.io/", // kustomize, kpt
	"configsync.gke.io/", "configmanagement.gke.io/",
	"kapp.k14s.io/", "fleet.cattle.io/", "objectset.rio.cattle.io/", "pulumi.com/", "carvel.dev/", "operators.coreos.com/", "olm.owner",
}

// tracker reports whether a key is one of trackers.
func tracker(key string) bool {
	domain, _, slashed := strings.Cut(key, "/")
	return slices.ContainsFunc(trackers, func(t string) bool {
		of, all := strings.CutSuffix(t, "/")
		return key == t || slashed && all && (domain == of || strings.HasSuffix(domain, "."+of))
	})
}

// Matcher returns the choice as a function of the key, safe for concurrent use. It
// does not change with p.
func (p Pass) Matcher() func(key string) bool {
	pass, drop := unslashedAll(p.Pass), unslashedAll(p.Drop)
	named := slices.Clone(p.Pass)
	if slices.Contains(pass, "*") {
		pass = []string{"*"}
	}
	return func(key string) bool {
		if tracker(key) && !slices.Contains(named, key) {
			return false
		}
		key = unslashed(key)
		return matchesAny(pass, key) && !matchesAny(drop, key)
	}
}

// unslashed makes a slash a character like any other: globs of paths keep it apart.
func unslashed(text string) string { return strings.ReplaceAll(text, "/", "\x00") }

func unslashedAll(globs []string) []string {
	out := make([]string, len(globs))
	for i, glob := range globs {
		out[i] = unslashed(glob)
	}
	return out
}
