package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"

	"ingot/samples/internal/sample"
)

// maxFile is the size of the largest file that is read.
const maxFile = 1 << 20

// snapshot is what the files of the service bindings contain at one time.
type snapshot struct {
	hash     [sha256.Size]byte
	services []sample.Service
}

// source reads the files that the platform mounts.
type source struct {
	file string // VCAP_SERVICES_FILE_PATH, or empty
	root string // SERVICE_BINDING_ROOT, or empty
}

// read returns the present content. The hash is set even if there is an error in the
// content, so that the same error is reported once.
func (s source) read() (snapshot, error) {
	sum := sha256.New()
	var all []sample.Service
	var err error
	if s.file != "" {
		all, err = readVCAP(s.file, sum)
	} else {
		all, err = readBindings(s.root, sum)
	}
	snap := snapshot{services: all}
	sum.Sum(snap.hash[:0])
	return snap, err
}

func readVCAP(name string, sum hash.Hash) ([]sample.Service, error) {
	text, err := readFile(name, sum)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("%s is empty", name)
	}
	all, err := sample.Services(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, errors.Unwrap(err))
	}
	return all, nil
}

// readFile reads a file and adds it to the hash.
func readFile(name string, sum hash.Hash) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		fmt.Fprintf(sum, "%s is missing\x00", name)
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	fmt.Fprintf(sum, "%s\x00%d\x00%s", name, len(text), text)
	return string(text), err
}

// readBindings reads a folder with a folder for each binding, in which each file is a
// credential: the layout of servicebinding.io.
func readBindings(root string, sum hash.Hash) ([]sample.Service, error) {
	folders, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var all []sample.Service
	for _, folder := range folders {
		path := filepath.Join(root, folder.Name())
		// Entries that begin with two dots belong to how Kubernetes replaces files. Stat
		// follows links.
		if info, err := os.Stat(path); strings.HasPrefix(folder.Name(), "..") || err != nil || !info.IsDir() {
			continue
		}
		s, err := readBinding(path, sum)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// platformFiles are the files of a binding that are not credentials. Older platforms
// name them with hyphens.
var platformFiles = []string{
	"binding_guid", "binding_name", "instance_guid", "instance_name", "label", "name", "plan", "syslog_drain_url", "tags",
	"volume_mounts", "type", "provider",
	"binding-guid", "binding-name", "instance-guid", "instance-name", "syslog-drain-url", "volume-mounts",
}

func readBinding(path string, sum hash.Hash) (sample.Service, error) {
	s := sample.Service{Name: filepath.Base(path), Credentials: map[string]any{}}
	files, err := os.ReadDir(path)
	if err != nil {
		return s, err
	}
	content := map[string]string{}
	for _, f := range files {
		name := filepath.Join(path, f.Name())
		if info, err := os.Stat(name); strings.HasPrefix(f.Name(), "..") || err != nil || info.IsDir() {
			continue
		}
		if content[f.Name()], err = readFile(name, sum); err != nil {
			return s, err
		}
	}
	s.Label = content["type"]
	if content["name"] != "" {
		s.Name = content["name"]
	}
	if tags := content["tags"]; tags != "" {
		if err := json.Unmarshal([]byte(tags), &s.Tags); err != nil {
			return s, fmt.Errorf("%s: %w", filepath.Join(path, "tags"), err)
		}
	}
	for _, name := range platformFiles {
		delete(content, name)
	}
	for name, text := range content {
		s.Credentials[name] = text
	}
	return s, nil
}
