// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"k8s.io/client-go/rest"
)

// maxFileSize bounds what is read: a Secret or ConfigMap holds at most 1 MiB.
const maxFileSize = 1 << 20

// ReadFile reads a regular file of at most 1 MiB. Pipes and devices are refused, for
// reading one could block for ever. The error is worded to follow the file's name: "does
// not exist".
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, worded(err)
	case info.IsDir():
		return nil, errors.New("is a directory, not a file")
	case !info.Mode().IsRegular():
		return nil, errors.New("is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, worded(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	switch {
	case err != nil:
		return nil, worded(err)
	case len(data) > maxFileSize:
		return nil, fmt.Errorf("is larger than %d bytes", maxFileSize)
	}
	return data, nil
}

// worded drops the path, which the fault has already.
func worded(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("does not exist")
	case errors.Is(err, fs.ErrPermission):
		return errors.New("may not be read by this user")
	}
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		err = of.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
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
		return nil, fmt.Errorf("the service account of this process's pod cannot be used: %w", worded(err))
	}
	config.QPS = -1
	sum := sha256.Sum256(config.CAData)
	return &Accepted{REST: config, Hash: "in-cluster " + hex.EncodeToString(sum[:])}, nil
}
