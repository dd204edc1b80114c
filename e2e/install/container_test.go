// Copyright The Tributary Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"tributary.dev/tributary/e2e/cluster"
)

// entrypoint is what the image starts, as its test checks.
const entrypoint = "/ko-app/tributary"

// accountDir is where an API server mounts a pod's own credentials.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// local is the container of a rendered pod as a process of this machine.
type local struct {
	args, env []string
	// config is the path of the configuration in the arguments.
	config string
	// ports are this machine's ports, by the number and the name of the container's.
	ports map[string]int
}

// localOf maps a pod to this machine, and is the only place that does. Command, arguments and environment are exactly
// the rendered ones, but for the directories of mounted volumes, which have the volumes' content. In the configuration
// ports are mapped, too, and a kubeconfig replaces the pod's own credentials.
func (s *site) localOf(pod *corev1.Pod, kubeconfig []byte) local {
	s.Helper()
	if n := len(pod.Spec.Containers) + len(pod.Spec.InitContainers); n != 1 {
		s.Fatalf("the pod has %d containers", n)
	}
	container := &pod.Spec.Containers[0]
	root, dirs := s.TempDir(), []string{}
	for _, mount := range container.VolumeMounts {
		if mount.MountPath == accountDir {
			continue // the kubeconfig has the same
		}
		dir := filepath.Join(root, mount.MountPath)
		s.must(os.MkdirAll(dir, 0o700))
		for file, text := range s.volume(pod, mount.Name) {
			s.must(os.WriteFile(filepath.Join(dir, file), text, 0o600))
		}
		dirs = append(dirs, mount.MountPath+"/", dir+"/")
	}
	here := strings.NewReplacer(dirs...)
	argv := slices.Concat(container.Command, container.Args)
	if len(container.Command) > 0 {
		if argv[0] != entrypoint {
			s.Fatalf("the image has no %s", argv[0])
		}
		argv = argv[1:]
	}
	l := local{ports: s.ports(container)}
	for _, arg := range argv {
		l.args = append(l.args, here.Replace(arg))
		if file, ok := strings.CutPrefix(arg, "--config="); ok {
			l.config = here.Replace(file)
		}
	}
	for _, variable := range container.Env {
		l.env = append(l.env, variable.Name+"="+here.Replace(s.value(pod, variable)))
	}
	credentials := filepath.Join(root, "ingress.kubeconfig")
	s.must(os.WriteFile(credentials, kubeconfig, 0o600))
	text, err := os.ReadFile(l.config)
	s.must(err)
	s.must(os.WriteFile(l.config, s.localConfig(l, here.Replace(string(text)), credentials), 0o600))
	return l
}

// volume returns the content of a pod's volume, by file.
func (s *site) volume(pod *corev1.Pod, name string) map[string][]byte {
	s.Helper()
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	if i < 0 {
		s.Fatalf("a volume %s is mounted that the pod does not have", name)
	}
	core, files := s.fleet.Ingress.Client.CoreV1(), map[string][]byte{}
	switch volume := pod.Spec.Volumes[i]; {
	case volume.ConfigMap != nil && len(volume.ConfigMap.Items) == 0:
		held, err := core.ConfigMaps(own).Get(s.Context(), volume.ConfigMap.Name, metav1.GetOptions{})
		s.must(err)
		for file, text := range held.Data {
			files[file] = []byte(text)
		}
	case volume.Secret != nil && len(volume.Secret.Items) == 0:
		held, err := core.Secrets(own).Get(s.Context(), volume.Secret.SecretName, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) || volume.Secret.Optional == nil || !*volume.Secret.Optional {
			s.must(err)
			files = held.Data
		}
	default:
		s.Fatalf("volume %s is of a kind that this test does not mount", name)
	}
	return files
}

// value returns the value of an environment variable of a pod's container.
func (s *site) value(pod *corev1.Pod, variable corev1.EnvVar) string {
	s.Helper()
	if variable.ValueFrom == nil {
		return variable.Value
	}
	if field := variable.ValueFrom.FieldRef; field != nil {
		switch field.FieldPath {
		case "metadata.name":
			return pod.Name
		case "metadata.namespace":
			return pod.Namespace
		}
	}
	s.Fatalf("%s has a source that this test does not read", variable.Name)
	return ""
}

// ports returns free ports of this machine for those of a container, and for its pages, which it serves only locally.
func (s *site) ports(container *corev1.Container) map[string]int {
	s.Helper()
	ports := map[string]int{}
	for _, port := range append(slices.Clone(container.Ports), corev1.ContainerPort{ContainerPort: listens, Name: "pages"}) {
		free, err := cluster.FreePort()
		s.must(err)
		ports[fmt.Sprint(port.ContainerPort)], ports[port.Name] = free, free
	}
	return ports
}

// localConfig returns a configuration with the ports and the credentials of this machine.
func (s *site) localConfig(l local, text, credentials string) []byte {
	s.Helper()
	var config map[string]any
	s.must(yaml.UnmarshalStrict([]byte(text), &config))
	for field, standard := range map[string]string{"listen": fmt.Sprintf("127.0.0.1:%d", listens), "metricsListen": ""} {
		address, _ := config[field].(string)
		_, port, err := net.SplitHostPort(cmp.Or(address, standard))
		if err != nil || l.ports[port] == 0 {
			s.Fatalf("%s: %q is no port of the container (%v)", field, address, err)
		}
		config[field] = l.address(port)
	}
	ingress, _ := config["ingress"].(map[string]any)
	if ingress == nil {
		ingress = map[string]any{}
	}
	ingress["kubeconfig"], config["ingress"] = credentials, ingress
	out, err := yaml.Marshal(config)
	s.must(err)
	return out
}

// address returns the address of a container's port on this machine.
func (l local) address(port string) string { return fmt.Sprintf("127.0.0.1:%d", l.ports[port]) }

// probe probes as the kubelet would.
func (l local) probe(probe *corev1.Probe) error {
	get := probe.HTTPGet
	answer, err := http.Get(strings.ToLower(string(get.Scheme)) + "://" + l.address(get.Port.String()) + get.Path)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("probe of %s: %s", get.Path, answer.Status)
	}
	return nil
}
