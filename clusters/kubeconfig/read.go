// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeconfig

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// MaxFileSize bounds what is read: a Secret or ConfigMap holds at most 1 MiB.
const MaxFileSize = 1 << 20

// ReadFile reads a regular file of at most MaxFileSize bytes. Pipes and devices
// are refused, for reading one could block for ever. The error is worded to
// follow the file's name: "does not exist".
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
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	switch {
	case err != nil:
		return nil, worded(err)
	case len(data) > MaxFileSize:
		return nil, fmt.Errorf("is larger than %d bytes", MaxFileSize)
	}
	return data, nil
}

// worded keeps the cause for errors.Is and drops the path, which the message of
// the fault has already.
func worded(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("does not exist%w", silent{err})
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("may not be read by this user%w", silent{err})
	}
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// silent is a cause that adds no words.
type silent struct{ error }

func (silent) Error() string   { return "" }
func (s silent) Unwrap() error { return s.error }
