# SPDX-License-Identifier: Apache-2.0
# Copyright (c) 2026 The Culvert Authors
#
# Sourced, after stages.bash, by the scripts that boot virtual machines: Debian's kernel, and what such a machine boots from.
# Nothing is installed but what `scripts/setup kernel` names.

machines=/usr/local/lib/culvert-tests

# find_kernel: unpacks the kernel's package where it is not, and sets kernel_files, kernel and kernel_version.
find_kernel() {
    local package folder
    kernel_files=$machines/kernel
    if ! compgen -G "$kernel_files/boot/vmlinuz-*" >/dev/null; then
        package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-.*\)/\1/p' | head -n 1)
        [[ -n $package ]] || fail "apt knows no package linux-image-cloud-amd64"
        folder=$(mktemp -d)
        (cd "$folder" && apt-get download -qq -o APT::Sandbox::User=root "$package")
        mkdir -p "$kernel_files"
        dpkg -x "$folder"/linux-image-*.deb "$kernel_files"
        depmod -b "$kernel_files" "$(ls "$kernel_files/lib/modules")"
        rm -rf "$folder"
    fi
    kernel=$(compgen -G "$kernel_files/boot/vmlinuz-*" | tail -n 1)
    kernel_version=${kernel##*/vmlinuz-}
}

# initial_root ROOT MODULE...: a root with busybox and those modules; their order is in /lib/modules/order.
initial_root() {
    local root=$1 name file
    shift
    mkdir -p "$root"/{bin,proc,sys,dev,tmp,lib/modules}
    cp "$(command -v busybox)" "$root/bin/busybox"
    for name in $(busybox --list); do [[ $name == busybox ]] || ln -sf busybox "$root/bin/$name"; done
    modprobe -a -d "$kernel_files" -S "$kernel_version" --show-depends "$@" |
        awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
        cp "$file" "$root/lib/modules/"
        basename "$file"
    done >"$root/lib/modules/order"
}

# add_programs ROOT NAME...: programs of this machine with their libraries, in place of busybox's.
add_programs() {
    local root=$1 name file library
    shift
    for name; do
        file=$(readlink -f "$(command -v "$name")")
        rm -f "$root/bin/$name"
        cp "$file" "$root/bin/$name"
        ldd "$file" | awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }' | while read -r library; do
            mkdir -p "$root$(dirname "$library")"
            cp -L "$library" "$root$library"
        done
    done
}

# pack_machine ROOT FOLDER: what qemu boots from: FOLDER/kernel and FOLDER/initrd.
pack_machine() {
    (cd "$1" && find . | cpio --create --format=newc --quiet | gzip -1) >"$2/initrd"
    cp "$kernel" "$2/kernel"
}
