// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

// Command kubeground is etcd, kube-apiserver and kube-controller-manager in one executable: the real servers of the
// end-to-end tests. The first argument chooses the server, all others are that server's own flags:
//
//	kubeground etcd --data-dir=...
//	kubeground kube-apiserver --etcd-servers=...
//	kubeground kube-controller-manager --kubeconfig=...
//
// One executable, because the three share most of their code: it links once and fills a third of the disk. It is the
// only package of this module that pulls in the servers; everything else talks to them over the wire, so that
// compiling a scenario stays a matter of seconds. Package cluster builds, caches and starts it.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	kcm "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	// The servers read os.Args themselves and expect their own name in front.
	os.Args = os.Args[1:]
	run, known := roles[os.Args[0]]
	if !known {
		usage()
	}
	if err := watchLifeline(); err != nil {
		fmt.Fprintln(os.Stderr, "kubeground:", err)
		os.Exit(2)
	}
	os.Exit(run())
}

var roles = map[string]func() int{
	"etcd": func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver": func() int {
		return cli.Run(apiserver.NewAPIServerCommand())
	},
	"kube-controller-manager": func() int {
		return cli.Run(kcm.NewControllerManagerCommand())
	},
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: kubeground etcd|kube-apiserver|kube-controller-manager [flags of that server]")
	os.Exit(2)
}
