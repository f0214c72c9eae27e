package kubernetes

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/storage/archive"
)

const (
	// annotationImage is what the engine has to know of the image of a Pod, as JSON.
	annotationImage = "ingot.dev/image"
	// programsVolume has the programs of the stack image in a Pod with another image.
	programsVolume = "programs"
	programsInside = "/ingot"
	programsSize   = 64 << 20
	// defaultPullTime is how long nodes may take to pull an image, less than a start may take.
	defaultPullTime = 8 * time.Minute
	// mostUnpacked and mostFiles limit a layer that is read for its accounts.
	mostUnpacked = 16 << 30
	mostFiles    = 300_000
)

// imageOfPod is annotationImage.
type imageOfPod struct {
	Home string `json:"home"`
	Dir  string `json:"dir"`
}

// Fetch finds out whom an image runs as. Nodes pull it when an instance is started.
func (e *Engine) Fetch(ctx context.Context, i engine.Image, _ int64) (engine.Fetched, error) {
	who, err := accountOf(ctx, i)
	return engine.Fetched{Account: &who}, err
}

// accountOf returns whom an image runs as. Kubernetes needs numbers, and an image may have
// names.
func accountOf(ctx context.Context, i engine.Image) (platform.ImageAccount, error) {
	name, _, _ := strings.Cut(i.User, ":")
	switch {
	case i.Account != nil:
		return *i.Account, nil
	case name == "" || name == "0" || name == "root":
		return platform.ImageAccount{Home: "/"}, nil
	}
	files, err := accountFiles(ctx, i)
	if err != nil {
		return platform.ImageAccount{}, err
	}
	return local.ImageAccount(i.User, func(name string) io.ReadCloser {
		if files[name] == nil {
			return nil
		}
		return io.NopCloser(bytes.NewReader(files[name]))
	})
}

// accountFiles reads the files with the accounts of an image: each from the highest layer that
// has or removes it.
func accountFiles(ctx context.Context, i engine.Image) (map[string][]byte, error) {
	_, group, _ := strings.Cut(i.User, ":")
	wanted := map[string]bool{local.PasswdFile: true}
	if strings.Trim(group, "0123456789") != "" {
		wanted[local.GroupFile] = true
	}
	files := map[string][]byte{}
	for n := len(i.Layers) - 1; n >= 0 && len(wanted) > 0; n-- {
		if err := readAccounts(ctx, i.Layers[n], wanted, files); err != nil {
			return nil, fmt.Errorf("layer %d of the image: %w", n+1, err)
		}
	}
	return files, nil
}

// readAccounts moves what is in a layer from wanted to files.
func readAccounts(ctx context.Context, l engine.Layer, wanted map[string]bool, files map[string][]byte) error {
	r, err := l.Open(ctx)
	if err != nil {
		return err
	}
	defer r.Close()
	settled := map[string][]byte{}
	found, err := archive.WalkLayer(r, archive.Limits{Size: mostUnpacked, Files: mostFiles},
		func(e archive.Entry, body io.Reader) error {
			if !wanted[e.Path] {
				return nil
			}
			settled[e.Path] = nil // a link leads nowhere here
			if e.Kind != archive.File {
				return nil
			}
			text, err := io.ReadAll(io.LimitReader(body, 1<<20)) // the first part of more accounts than there are
			settled[e.Path] = text
			return err
		})
	if err == nil {
		_, err = io.Copy(io.Discard, r) // what comes last is the checksum
	}
	if err != nil {
		return err
	}
	hides := map[string]bool{}
	for _, name := range append(found.Removed, found.Opaque...) {
		hides[name] = true
	}
	for name := range wanted {
		text, here := settled[name]
		if here && text != nil {
			files[name] = text
		}
		if here || hides[name] || hides[path.Dir(name)] {
			delete(wanted, name)
		}
	}
	return nil
}

// runAs returns the user and the group of the processes of an image, and their home directory.
// Root becomes an unprivileged user in root's group, who may use what an image offers to any
// user, as on other platforms that do not run images as root.
func runAs(who platform.ImageAccount) (uid, gid int, homeDir string) {
	if who.User == 0 {
		return user, 0, ""
	}
	return who.User, who.Group, who.Home
}

// inImage makes a Pod run an image: the agent comes from the stack image by a container that
// runs before.
func (e *Engine) inImage(pod object, s engine.Spec, who platform.ImageAccount) error {
	spec, annotations := pod["spec"].(object), pod["metadata"].(object)["annotations"].(object)
	c := spec["containers"].([]any)[0].(object)
	uid, gid, homeDir := runAs(who)
	note, err := json.Marshal(imageOfPod{Home: homeDir, Dir: path.Join("/", s.Image.Dir)})
	if err != nil {
		return err
	}
	annotations[annotationImage] = string(note)
	spec["initContainers"] = []any{object{
		"name": programsVolume, "image": e.options.Image, "imagePullPolicy": c["imagePullPolicy"],
		"command":   []any{"/bin/cp", initInside, SFTPInside, "/" + programsVolume + "/"},
		"resources": c["resources"],
		"securityContext": object{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": object{"drop": []any{"ALL"}},
		},
		"volumeMounts": []any{object{"name": programsVolume, "mountPath": "/" + programsVolume}},
	}}
	spec["volumes"] = append(spec["volumes"].([]any),
		object{"name": programsVolume, "emptyDir": object{"sizeLimit": quantity(programsSize)}})
	// An image may listen below 1024, where this counts for its own network only.
	spec["securityContext"].(object)["sysctls"] = []any{
		object{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}}
	if s.Image.Username != "" || s.Image.Password != "" {
		spec["imagePullSecrets"] = []any{object{"name": podName(s.ID, s.Labels)}}
	}
	c["image"], c["workingDir"] = s.Image.Reference, "/"
	c["securityContext"] = object{
		"allowPrivilegeEscalation": false, "capabilities": object{"drop": []any{"ALL"}},
		"runAsUser": int64(uid), "runAsGroup": int64(gid),
	}
	c["volumeMounts"] = append(c["volumeMounts"].([]any),
		object{"name": programsVolume, "mountPath": programsInside, "readOnly": true})
	return nil
}

var secretResource = podResource.GroupVersion().WithResource("secrets")

// pullSecret gives nodes the credentials of the registry of a Pod's image. The Secret belongs
// to the Pod, and is deleted with it: so it is created after the Pod, whose first container
// needs none. The engine cannot read Secrets.
func (e *Engine) pullSecret(ctx context.Context, p *pod, i *engine.Image) error {
	if i == nil || i.Username == "" && i.Password == "" {
		return nil
	}
	registry, _, _ := strings.Cut(i.Reference, "/")
	auth := base64.StdEncoding.EncodeToString([]byte(i.Username + ":" + i.Password))
	config, err := json.Marshal(object{"auths": object{registry: object{"auth": auth}}})
	if err != nil {
		return err
	}
	secret := object{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson", "immutable": true,
		"metadata": object{
			"name": p.Name, "namespace": p.Namespace, "labels": object{labelInstall: e.install},
			"ownerReferences": []any{object{"apiVersion": "v1", "kind": "Pod", "name": p.Name, "uid": string(p.UID)}},
		},
		"data": object{".dockerconfigjson": base64.StdEncoding.EncodeToString(config)},
	}
	_, err = e.client.Resource(secretResource).Namespace(p.Namespace).
		Create(ctx, &unstructured.Unstructured{Object: secret}, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) { // by another server
		return nil
	}
	return stepError("create the Secret with which nodes pull the image", err)
}

// image returns what a Pod says about its image; nil if it runs the stack.
func (p *pod) image() *imageOfPod {
	text := p.Annotations[annotationImage]
	if text == "" {
		return nil
	}
	var i imageOfPod
	if json.Unmarshal([]byte(text), &i) != nil {
		return &imageOfPod{Dir: "/"} // it was edited
	}
	return &i
}

// reference returns the name of a Pod's image.
func (p *pod) reference() string {
	if len(p.Spec.Containers) == 0 {
		return ""
	}
	return p.Spec.Containers[0].Image
}

// notPulled are the states of a container whose image could not be pulled.
var notPulled = map[string]bool{
	"ErrImagePull": true, "ImagePullBackOff": true, "InvalidImageName": true, "ImageInspectError": true,
	"RegistryUnavailable": true, "SignatureValidationFailed": true,
}

// imageFailed returns why the image of an app will not run, for its users.
func (e *Engine) imageFailed(p *pod, waited time.Duration) error {
	if p.image() == nil {
		return nil
	}
	w := p.container().Waiting
	switch {
	case w != nil && notPulled[w.Reason]:
		return fault.Wrap(fmt.Errorf("%s: %s", w.Reason, w.Message), fault.Unprocessable,
			"the cluster could not pull the image %s: %s", p.reference(), pullReason(w.Message))
	case p.Spec.NodeName != "" && waited > e.options.PullTime:
		return fault.Wrap(errors.New("still waiting"), fault.Unprocessable,
			"the cluster has not pulled the image %s after %v: the registry may be slow, or the image large; try again, "+
				"because nodes keep what they have pulled, or make the image smaller", p.reference(), e.options.PullTime)
	}
	return nil
}

// pullReason explains the message of a container runtime, and keeps the end of it, where the
// cause is.
func pullReason(message string) string {
	lower := strings.ToLower(message)
	has := func(words ...string) bool {
		for _, word := range words {
			if strings.Contains(lower, word) {
				return true
			}
		}
		return false
	}
	hint := "the registry or the node reports an error"
	switch {
	case has("unauthorized", "authorization failed", "denied", "forbidden", "no basic auth", "401", "403"):
		hint = "its registry denies the nodes access; push the app again with a valid --docker-username and " +
			"CF_DOCKER_PASSWORD"
	case has("not found", "manifest unknown"):
		hint = "it is no longer in its registry; push the app again"
	case has("no such host", "connection refused", "i/o timeout", "deadline exceeded", "no route to host", "x509",
		"certificate", "server gave http response"):
		hint = "the nodes of the cluster do not reach its registry, unlike the server; an operator has to give them " +
			"access to it"
	case has("no space left"):
		hint = "a node has no space left on its disk"
	case has("no match for platform"):
		hint = "it has nothing for the processor of a node"
	}
	const most = 300
	if message = strings.TrimSpace(message); len(message) > most {
		message = "…" + strings.ToValidUTF8(message[len(message)-most:], "")
	}
	return hint + " (" + message + ")"
}
