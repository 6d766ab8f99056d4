// Small files of each format, with every kind of element.
#pragma once

namespace weft::topology {

inline constexpr const char* kHwlocSample = R"(<?xml version="1.0" encoding="UTF-8"?>
<!-- a comment before the DOCTYPE -->
<!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0xf" nodeset="0x1010">
    <info name="HostName" value="sample"/>
    <object type="Package" os_index="0" cpuset="0x3" nodeset="0x00000001,0x00000000,0x10">
      <object type="NUMANode" os_index="4" cpuset="0x3" nodeset="0x10" local_memory="1000"/>
      <object type="NUMANode" os_index="64" subtype="GPUMemory" cpuset="0x3" nodeset="0x1,0x0,0x0"/>
      <object type="Bridge" gp_index="1" bridge_type="0-1" depth="0" bridge_pci="0000:[00-04]">
        <object type="Bridge" bridge_type="1-1" pci_busid="0000:00:01.0" pci_type="0604 [8086:0001] [0000:0000] 00" pci_link_speed="15.75">
        <object type="Bridge" bridge_type="1-1" pci_busid="0000:01:00.0" pci_type="0604 [10b5:0001] [0000:0000] 00" pci_link_speed="15.75">
        <object type="Bridge" bridge_type="1-1" pci_busid="0000:02:00.0" pci_type="0604 [10b5:0001] [0000:0000] 00" pci_link_speed="15.75">
          <object type="PCIDev" gp_index="2" pci_busid="0000:03:00.0" pci_type="0302 [10de:20b0] [10de:0001] a1" pci_link_speed="15.75">
            <object type="OSDev" gp_index="3" name="cuda0" subtype="CUDA" osdev_type="5">
              <info name="GPUModel" value="A GPU"/>
            </object>
          </object>
        </object>
        <object type="Bridge" bridge_type="1-1" pci_busid="0000:02:01.0" pci_type="0604 [10b5:0001] [0000:0000] 00" pci_link_speed="15.75">
          <object type="PCIDev" gp_index="4" pci_busid="0000:04:00.0" pci_type="0207 [15b3:1017] [15b3:0001] 00" pci_link_speed="15.75">
            <object type="OSDev" gp_index="5" name="mlx5_0" osdev_type="3">
              <info name="Port1State" value="4"/>
              <info name="Port1LID" value="0x9a"/>
              <info name="Port1GID0" value="fe80:0000:0000:0000:ec0d:9a03:0067:fdd4"/>
              <info name="Port2State" value="1"/>
            </object>
          </object>
        </object>
        </object>
        </object>
        <object type="PCIDev" gp_index="6" pci_busid="0000:00:05.0" pci_type="0300 [1a03:2000] [1a03:2000] 41" pci_link_speed="0.000000">
          <object type="OSDev" gp_index="7" name="card0" osdev_type="1"/>
        </object>
      </object>
    </object>
    <object type="Package" os_index="1" cpuset="0xc" nodeset="0x1000">
      <object type="NUMANode" os_index="12" cpuset="0xc" nodeset="0x1000" local_memory="1000"/>
      <object type="Bridge" gp_index="8" bridge_type="0-1" depth="0" bridge_pci="0001:[00-01]">
        <object type="PCIDev" gp_index="9" pci_busid="0001:01:00.0" pci_type="0302 [10de:20b0] [10de:0001] a1" pci_link_speed="nan">
          <object type="OSDev" gp_index="10" name="nvml1" osdev_type="1"/>
        </object>
        <object type="PCIDev" gp_index="11" pci_busid="0001:02:00.0" pci_type="0200 [8086:1521] [8086:0001] 01" pci_link_speed="2.0">
          <object type="OSDev" gp_index="12" name="mlx5_0" osdev_type="2"/>
        </object>
      </object>
    </object>
  </object>
  <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
    <indexes length="4">4 12 </indexes>
    <u64values length="12">10 40 40 10 </u64values>
  </distances2>
  <distances2hetero nbobjs="2" kind="9" name="NVLinkBandwidth" indexing="gp">
    <indexes length="4">OSDev:3 OSDev:10 </indexes>
    <u64values length="12">0 40000 40000 0 </u64values>
  </distances2hetero>
</topology>
)";

inline constexpr const char* kNcclSample = R"(<system version="1">
  <cpu numaid="0" affinity="00000000,00000003" arch="x86_64">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0000:02:00.0" class="0x030200" vendor="0x10de" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="90" rank="0" gdr="1">
          <nvlink target="0000:f0:00.0" count="6" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:03:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic>
          <net name="mlx5_1" dev="0" speed="200000" port="1" guid="0x1" maxconn="131072" gdr="1"/>
          <net name="mlx5_1" dev="1" speed="200000" port="2" guid="0x1" maxconn="131072" gdr="1"/>
        </nic>
      </pci>
    </pci>
    <pci busid="0000:05:00.0" class="0x020000" link_speed="" link_width="0"/>
  </cpu>
  <cpu numaid="7" affinity="00000000,0000000c" arch="arm64">
    <pci busid="0000:82:00.0" class="0x030200" vendor="0x10de" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="1" sm="90" rank="1" gdr="1">
        <nvlink target="0000:f0:00.0" count="6" tclass="0x068000"/>
        <c2c bw="45000" count="10"/>
      </gpu>
    </pci>
    <pci busid="0000:83:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
      <nic>
        <net name="mlx5_0" dev="2" speed="400000" port="1" guid="0x2" maxconn="131072" gdr="1"/>
      </nic>
    </pci>
    <nic>
      <net name="eth0" dev="3" speed="10000" port="0"/>
    </nic>
  </cpu>
</system>
)";

}  // namespace weft::topology
