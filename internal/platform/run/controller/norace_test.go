//go:build !race

package controller

const slow = false
