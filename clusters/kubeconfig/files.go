// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/client-go/rest"
)

// ReadFile reads a file. The error does not name it: the fault that it becomes does.
func ReadFile(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	return data, nameless(err)
}

// nameless drops the path from an error about a file.
func nameless(err error) error {
	if number, is := errors.AsType[syscall.Errno](err); is {
		return number
	}
	return err
}

// InCluster is the way to the cluster in which this process runs as a pod. read reads
// the cluster's CA, so that another one makes another hash; the token is read again by
// client-go.
func InCluster(read func(path string) ([]byte, error)) (*Accepted, error) {
	config, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("name a kubeconfig of the ingress cluster: this process does not run in a cluster")
	}
	if err == nil && config.CAFile != "" {
		config.CAData, err = read(config.CAFile)
		config.CAFile = ""
	}
	if err != nil {
		return nil, fmt.Errorf("the service account of this process's pod cannot be used: %w", err)
	}
	config.QPS = -1
	sum := sha256.Sum256(config.CAData)
	return &Accepted{REST: config, Hash: "in-cluster " + hex.EncodeToString(sum[:])}, nil
}

// ReplaceFile puts a file in place at once, for its owner alone: a reader sees the old
// content or the new.
func ReplaceFile(path string, data []byte) error {
	next, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err == nil {
		_, err = next.Write(data)
		if err = errors.Join(err, next.Close()); err == nil {
			err = os.Rename(next.Name(), path)
		}
		if err != nil {
			_ = os.Remove(next.Name())
		}
	}
	if err != nil { // the other file has another name at each try
		return fmt.Errorf("replace %s, which must not be mounted by itself, and whose directory must be writable: %w", path, nameless(err))
	}
	return nil
}
