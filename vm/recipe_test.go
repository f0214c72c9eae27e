package main

import (
	"slices"
	"strings"
	"testing"
)

// TestRecipe checks that an image of another recipe is not used.
func TestRecipe(t *testing.T) {
	t.Parallel()
	const other = "http://mirror.example.com/debian"
	if imageName(defaultMirror) == imageName(other) || imageName(other) != imageName(other) {
		t.Errorf("images from two mirrors are called %s and %s", imageName(defaultMirror), imageName(other))
	}
	for _, part := range []string{suite, diskSize, "linux-image-cloud-amd64", setup} {
		if !strings.Contains(recipe(other), part) {
			t.Errorf("a change of %q does not change the name of the image", part)
		}
	}
	if want := "deb " + other + "-security bookworm-security main"; !slices.Contains(sources(other), want) {
		t.Errorf("the sources are %q, want also %q", sources(other), want)
	}
	if list := slices.Sorted(slices.Values(packages)); len(slices.Compact(list)) != len(packages) {
		t.Error("a package is listed twice")
	}
}
